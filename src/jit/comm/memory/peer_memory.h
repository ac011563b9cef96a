// Peer memory as one mapping: the blocks of all ranks one after the other, private to this process
// or in a file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// Blocks of `bytes` for `ranks` ranks, one after the other, as `rank` holds them: in the file `fd`
/// of at least `file_bytes`, or for -1 in zeroed memory of this process. Throws CommError when the
/// address space does not suffice.
[[nodiscard]] std::shared_ptr<PeerMemory> map_blocks(int ranks, std::size_t bytes, int fd,
                                                     int rank);

/// Size of such a mapping. Throws CommError when it overflows.
[[nodiscard]] std::size_t file_bytes(int ranks, std::size_t bytes);

/// Every rank's text, by rank: how processes find their shared memory.
using Exchange = std::function<std::vector<std::string>(std::string_view mine)>;

/// Where memory that several processes map comes from.
enum class SharedFile {
  memfd,  ///< anonymous memory of rank 0, which the others open below /proc: no limit but the RAM
  shm     ///< a file in /dev/shm, unlinked as soon as every rank has mapped it
};

/// Memory of `bytes` on every one of some processes, which are called `numbers` in messages; this
/// one is at position `rank` of them. Collective. Tries memfd, then shm, unless `only` says which,
/// and throws the same CommError on every rank when neither works.
[[nodiscard]] COCONET_API std::shared_ptr<PeerMemory> map_across_processes(
    int rank, const std::vector<int>& numbers, std::size_t bytes, const Exchange& exchange,
    std::optional<SharedFile> only = {});

}  // namespace coconet::jit
