// Library collectives of ranks that share memory: no rank sends, each reads what the others have
// and computes what it gets, in rank order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"
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

/// Threads work on each other's tensors where they are. Between processes short messages are copied
/// through shared memory, tensors in peer memory stay where they are, and the rest is MPI's, or is
/// copied piece by piece where a world has no MPI.
class DirectCollectives final : public Collectives {
 public:
  /// Bytes that fit a copy: no rank may have more to show, whatever the ways say.
  static constexpr std::size_t capacity = std::size_t{1} << 18;

  /// What a rank writes for the others: zeroed memory that all see. Operands and copies are written
  /// in turn, by the count of barriers: who writes one has met everybody since they last read it.
  struct Board {
    struct Operands {
      Place in, out;
    };
    alignas(64) std::uint64_t arrivals;
    alignas(64) std::array<Operands, 2> operands;
    alignas(4096) std::array<std::array<std::byte, capacity>, 2> copies;
  };

  /// `boards[i]` is that of `ranks[i]`. `allocations` is null where the ranks are threads. `large`,
  /// which may be null, carries out what goes neither way: it has the same ranks, and begins every
  /// call with the same barrier. `ways` may change between calls, on all ranks alike.
  DirectCollectives(std::shared_ptr<Barrier> barrier, std::vector<int> ranks,
                    std::vector<Board*> boards, std::shared_ptr<const PeerAllocations> allocations,
                    std::shared_ptr<Collectives> large, std::shared_ptr<const CollectiveWays> ways);

  void run(Queue& queue, const CollectiveCall& call) override;
  void refuse() override { barrier_->refuse(); }

 private:
  [[nodiscard]] int size() const { return barrier_->size(); }
  [[nodiscard]] int rank() const { return barrier_->position(); }
  /// Collective: whether every rank's `in` and `out` can be reached here, which are then in `ins_`
  /// and `outs_`.
  [[nodiscard]] bool reaches(const CollectiveCall& call);
  /// Elements [begin, begin + length) of every block of a call, or of its `count`.
  struct Piece {
    std::size_t begin, length;
    /// How many of a block of `count` elements are in it.
    [[nodiscard]] std::size_t of(std::size_t count) const {
      return std::min(length, count - std::min(begin, count));
    }
  };
  static constexpr Piece whole{0, SIZE_MAX};
  /// Collective: a piece at a time, as large as a copy holds.
  void copy_in_pieces(const CollectiveCall& call);
  /// Collective: copies what this rank shows of `piece`, block after block, and puts where all
  /// ranks' copies are in `ins_`.
  void copy(const CollectiveCall& call, const Piece& piece);
  /// What this rank makes of `ins_`, which hold `piece` of every rank's operand; `outs` is empty
  /// where it can write its own result only.
  void read(const CollectiveCall& call, const Piece& piece, std::span<void* const> outs) const;
  /// `count` elements of the reduction to `outs`, a share of it by each rank.
  void combine_shares(const CollectiveCall& call, std::size_t count,
                      std::span<void* const> outs) const;
  /// What the ranks have for this one, of an all_gather or all_to_all.
  void take_blocks(const CollectiveCall& call, const Piece& piece) const;

  std::shared_ptr<Barrier> barrier_;
  std::vector<int> ranks_;
  std::vector<Board*> boards_;
  std::shared_ptr<const PeerAllocations> allocations_;
  std::shared_ptr<Collectives> large_;
  std::shared_ptr<const CollectiveWays> ways_;
  std::vector<const void*> ins_;
  std::vector<void*> outs_;
};

}  // namespace coconet::jit
