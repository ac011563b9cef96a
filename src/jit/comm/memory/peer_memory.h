// Peer memory as one mapping: the blocks of all ranks one after the other, private to this process
// or in a file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// A mapping of `ranks` blocks of `bytes` each.
class Mapping {
 public:
  /// `fd` is a file of at least `file_bytes(ranks, bytes)`, or -1 for zeroed memory of this
  /// process. Throws CommError when the address space does not suffice.
  Mapping(int ranks, std::size_t bytes, int fd);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// `rank`'s handle on `mapping`.
  [[nodiscard]] static std::shared_ptr<PeerMemory> handle(
      const std::shared_ptr<const Mapping>& mapping, int rank);

  /// Size of the whole mapping. Throws CommError when it overflows.
  [[nodiscard]] static std::size_t file_bytes(int ranks, std::size_t bytes);

 private:
  int ranks_;
  std::size_t bytes_;
  std::size_t size_;
  std::byte* start_ = nullptr;
};

/// Every rank's text, by rank: how processes find their shared memory.
using Exchange = std::function<std::vector<std::string>(std::string_view mine)>;

/// Where memory that several processes map comes from.
enum class SharedFile {
  memfd,  ///< anonymous memory of rank 0, which the others open below /proc: no limit but the RAM
  shm     ///< a file in /dev/shm, unlinked as soon as every rank has mapped it
};

/// Memory of `bytes` on every one of some processes, which are called `numbers` in messages; this
/// one is at position `rank` of them. Collective. Tries memfd, then shm, and throws the same
/// CommError on every rank when neither works.
[[nodiscard]] std::shared_ptr<PeerMemory> map_across_processes(int rank,
                                                               const std::vector<int>& numbers,
                                                               std::size_t bytes,
                                                               const Exchange& exchange);
/// The same with one kind of file only.
[[nodiscard]] std::shared_ptr<PeerMemory> map_across_processes(int rank,
                                                               const std::vector<int>& numbers,
                                                               std::size_t bytes,
                                                               const Exchange& exchange,
                                                               SharedFile kind);

}  // namespace coconet::jit
