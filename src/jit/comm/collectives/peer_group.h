// Library collectives between processes on tensors that lie in peer memory: no rank copies or sends, each works on
// the others' tensors where they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "jit/comm/collectives/direct_group.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// Where a tensor is, in terms that hold in every process.
struct Place {
  std::uint64_t allocation = 0;  ///< 0: not in peer memory
  std::uint64_t offset = 0;      ///< bytes into its rank's block
};

/// The peer memory of a world, by number. Allocations are collective, so all ranks count alike.
class PeerAllocations {
 public:
  void add(const std::shared_ptr<PeerMemory>& memory);
  /// Where this rank's `data` is.
  [[nodiscard]] Place find(const void* data) const;
  /// The memory at `place` of `rank`'s block, in an allocation that this rank holds.
  [[nodiscard]] std::byte* at(const Place& place, int rank) const;

 private:
  struct Allocation {
    std::uint64_t number;
    std::weak_ptr<PeerMemory> memory;
  };
  std::vector<Allocation> allocations_;
  std::uint64_t count_ = 0;
};

class PeerGroup final : public DirectGroup {
 public:
  /// What a rank tells the others of the tensors of a call.
  struct Operands {
    Place in, out;
  };
  /// Written in turn, by the count of barriers: who writes one has met everybody since they last read it.
  using Board = std::array<Operands, 2>;

  /// `boards[i]` is zeroed memory that `ranks[i]` writes and all read.
  PeerGroup(std::shared_ptr<Barrier> barrier, std::vector<int> ranks, std::vector<Board*> boards,
            std::shared_ptr<const PeerAllocations> allocations);

  /// Collective: whether every rank's `in` and `out` can be reached here. Only then may the call itself follow, with
  /// the same tensors.
  [[nodiscard]] bool reaches(const CollectiveCall& call);

 private:
  void exchange(std::string_view call, const void* in, std::size_t bytes, void* out,
                const Reader& read) override;

  std::vector<int> ranks_;
  std::vector<Board*> boards_;
  std::shared_ptr<const PeerAllocations> allocations_;
  std::vector<const void*> ins_;
  std::vector<void*> outs_;
};

}  // namespace coconet::jit
