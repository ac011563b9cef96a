// Library collectives of ranks that share memory: no rank sends, each reads what the others have
// and computes what it gets, in rank order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"
#include "jit/comm/collectives/combine.h"
#include "jit/comm/collectives/ways.h"
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
    std::uintptr_t begin;  ///< of this rank's block
    std::size_t bytes;
    std::weak_ptr<PeerMemory> memory;
  };
  std::vector<Allocation> allocations_;
  std::uint64_t count_ = 0;
};

/// Threads work on each other's tensors where they are. Between processes short messages and what
/// the others do not reach are copied through shared memory, piece by piece; tensors in peer memory
/// stay where they are.
class DirectCollectives final : public Collectives {
 public:
  /// Bytes of a copy: what a rank shows at a time.
  static constexpr std::size_t capacity = std::size_t{1} << 18;
  /// Calls whose operands a rank shows at a time.
  static constexpr std::size_t most_calls = 128;

  /// What a rank writes for the others: zeroed memory that all see. Operands and copies are written
  /// in turn, by the count of barriers: who writes one has met everybody since they last read it.
  struct Board {
    struct Operands {
      Place in, out;
    };
    alignas(64) std::uint64_t arrivals;
    alignas(64) std::array<std::array<Operands, most_calls>, 2> operands;
    alignas(4096) std::array<std::array<std::byte, capacity>, 2> copies;
  };

  /// `boards[i]` is that of `ranks[i]`. `allocations` is null where the ranks are threads.
  /// `by_mpi`, which may be null, carries out the calls that ask for MPI: it has the same ranks,
  /// and begins every call with the same barrier. Where there are `ways` it goes by them, which may
  /// change between calls, on all ranks alike.
  DirectCollectives(std::shared_ptr<Barrier> barrier, std::vector<int> ranks,
                    std::vector<Board*> boards, std::shared_ptr<const PeerAllocations> allocations,
                    std::shared_ptr<Collectives> by_mpi,
                    std::shared_ptr<const std::optional<CollectiveWays>> ways);

  /// Collective, between calls: takes the time of both ways in which data crosses between caches,
  /// for some ranks less than a millisecond, and goes by it from here on.
  void find_ways();

  void run(Queue& queue, const CollectiveCall& call) override { run_all(queue, {&call, 1}); }
  void run_all(Queue& queue, std::span<const CollectiveCall> calls) override;
  void refuse() override { barrier_->refuse(); }

 private:
  [[nodiscard]] int size() const { return barrier_->size(); }
  [[nodiscard]] int rank() const { return barrier_->position(); }
  /// Collective: shows the others where this rank's operands of all calls are.
  void show_operands(std::span<const CollectiveCall> calls);
  /// Whether those of call `number`, as the ranks wrote to `slot`, can be reached here; all ranks
  /// find the same.
  [[nodiscard]] bool reaches(std::size_t number, std::size_t slot) const;
  /// Puts where they are in `ins_` and `outs_`.
  void find_operands(std::size_t number, std::size_t slot);
  /// Of calls that are shown together.
  void run_together(std::span<const CollectiveCall> calls);
  /// Elements [begin, begin + length) of every block of a call, or of its `count`.
  struct Piece {
    std::size_t begin, length;
    /// How many of a block of `count` elements are in it.
    [[nodiscard]] std::size_t of(std::size_t count) const {
      return std::min(length, count - std::min(begin, count));
    }
  };
  static constexpr Piece whole{0, SIZE_MAX};
  /// Elements that one of the ranks combines for all.
  struct Share {
    std::size_t begin, length;
  };
  [[nodiscard]] Share share_of(int position, std::size_t count, DType dtype) const;
  /// Whether ranks combine a share each of `count` elements, or who gets the result all of them.
  [[nodiscard]] bool divides(const CollectiveCall& call, std::size_t count) const;

  /// Works on the tensors where they are: this rank's part of a call.
  void run_in_place(const CollectiveCall& call);
  /// Collective: what all show goes through copies, as much at a time as they hold.
  void run_in_pieces(std::span<const CollectiveCall> calls);
  /// A piece of a call that is shown beside others.
  struct Shown {
    const CollectiveCall* call;
    Piece piece;
  };
  /// Collective: copies what other ranks need of this one's `shown_`, takes its own, and forgets
  /// them.
  void exchange();
  /// Copies what other ranks need of this one's blocks to `to`, and returns where that ends.
  std::byte* show(const CollectiveCall& call, const Piece& piece, std::byte* to) const;
  /// Whether others read what the rank at `position` has.
  [[nodiscard]] bool is_read(const CollectiveCall& call, int position) const;
  /// Bytes of its block `block` that it then shows.
  [[nodiscard]] std::size_t shown_bytes(const CollectiveCall& call, const Piece& piece,
                                        int position, std::size_t block) const;
  /// Of a reduction to all, or to the root: each rank combines its share, and shows that.
  void reduce_in_shares(const CollectiveCall& call, const Piece& piece);
  /// What this rank gets of `piece`.
  void take(const CollectiveCall& call, const Piece& piece);
  /// Combines `count` elements of `parts_` into `destinations_`.
  void combine(const CollectiveCall& call, std::size_t count) const;
  /// Puts into `out` what the ranks have of `piece` of their block `block`, combined.
  void combine_block(const CollectiveCall& call, const Piece& piece, std::size_t block,
                     std::byte* out);
  /// Copies `piece` of block `block` of rank `from` to `out`.
  void take_block(const CollectiveCall& call, const Piece& piece, int from, std::size_t block,
                  std::byte* out) const;
  /// Where `piece` of block `block` of rank `from` begins.
  [[nodiscard]] const std::byte* part(const CollectiveCall& call, const Piece& piece, int from,
                                      std::size_t block) const;
  [[nodiscard]] const CollectiveWays& ways() const { return *ways_ ? **ways_ : found_; }
  [[nodiscard]] bool streams(std::size_t bytes) const { return bytes >= ways().streamed_bytes; }

  std::shared_ptr<Barrier> barrier_;
  std::vector<int> ranks_;
  std::vector<Board*> boards_;
  std::shared_ptr<const PeerAllocations> allocations_;
  std::shared_ptr<Collectives> by_mpi_;
  std::shared_ptr<const std::optional<CollectiveWays>> ways_;
  CollectiveWays found_;
  bool shows_copies_ = false;  ///< `ins_` are copies, without what only their rank reads
  std::vector<CollectiveCall> unreached_;  ///< of the calls that are shown together
  std::vector<Shown> shown_;
  std::vector<std::byte*> copies_;  ///< by rank, where the copy of the next piece begins
  std::vector<const std::byte*> ins_;
  std::vector<std::byte*> outs_;
  std::vector<const void*> parts_;
  std::vector<Destination> destinations_;
};

}  // namespace coconet::jit
