// Library collectives of a plan: one call of the world's collective, with the packing that slices
// of an inner dimension need. Of a scattered tensor it is one call for each buffer.
#pragma once

#include "jit/bind/tensors.h"

namespace coconet::jit {

class LibraryCollective {
 public:
  /// Collective. `by_mpi`: on the host, MPI does it whatever the bytes. Else `cores` of this rank
  /// share it out there.
  LibraryCollective(Comm& comm, const Platform& platform, const RankPlan& plan,
                    const sched::LibraryStep& step, bool by_mpi, int cores);

  /// A rank that is driven from here, by its position among the group's.
  struct Member {
    LibraryCollective* collective;
    const Tensors* tensors;
  };
  /// Collective over the group along `axis()`: calls of its ranks that `queue` works for. `given`
  /// is the digest of what the step is run with.
  static void run(Collectives& group, Queue& queue, std::span<const Member> members,
                  std::uint64_t given);

  [[nodiscard]] int axis() const { return axis_; }
  /// Bytes that this rank reads and writes, counting each buffer once.
  [[nodiscard]] std::uint64_t bytes(const Tensors& tensors) const {
    if (is_in_place(tensors)) return 0;
    return (tensors[in_].count + tensors[out_].count) * size_of(dtype_);
  }

 private:
  /// The block of one rank of the group inside a tensor: rows of `run` elements, `stride` apart.
  struct Block {
    std::size_t first = 0, rows = 0, run = 0, stride = 0;
    [[nodiscard]] std::size_t count() const { return rows * run; }
  };
  /// A tensor as the collective divides it: what is read into a block for each rank of the group
  /// where the result is sliced, the result into a block from each where what is read is sliced.
  struct Side {
    std::vector<Block> blocks;  ///< by position in the group
    /// The blocks one after the other; null where they lie so in the tensor.
    std::byte* packed = nullptr;
    std::shared_ptr<Memory> memory;           ///< that holds `packed`,
    std::shared_ptr<PeerMemory> peer_memory;  ///< or where other ranks reach it
  };
  [[nodiscard]] static Side divide(Comm& comm, const Platform& platform, const RankPlan& plan,
                                   ir::ValueId tensor, ir::ValueId sliced, int axis);
  /// `CollectiveCall::counts` of the whole tensors.
  [[nodiscard]] std::vector<std::size_t> counts_of(const RankPlan& plan, ir::ValueId in,
                                                   ir::ValueId out) const;
  /// Where a call begins: which piece of a tensor, and its element.
  struct Place {
    std::size_t piece = 0, first = 0;
  };
  /// What one call does: elements of one buffer on either side.
  struct Call {
    Place in, out;
    std::size_t count = 0;            ///< elements, for the ops that slice nothing
    std::vector<std::size_t> counts;  ///< of blocks, for those that do
  };
  /// A collective over one rank whose operand and result are one memory: nothing is left to do.
  [[nodiscard]] bool is_in_place(const Tensors& tensors) const {
    return copies_ && tensors[in_].data() == tensors[out_].data();
  }
  void find_calls(const RankPlan& plan, std::vector<std::size_t> counts, std::size_t count);
  /// What a call reads and writes: the tensors, or packed copies.
  [[nodiscard]] CollectiveCall::Operands operands(const Tensors& tensors, const Call& call) const;
  /// What a collective over one rank is.
  void copy(Queue& queue, const Tensors& tensors) const;
  /// Puts the blocks of what is read one after the other.
  void pack(Queue& queue, const Tensors& tensors);
  /// Takes the blocks of what was written apart, and clears what no rank wrote.
  void unpack(Queue& queue, const Tensors& tensors);

  ir::Op op_;
  ir::Attributes attributes_;
  DType dtype_;
  int axis_;
  bool by_mpi_;
  int cores_;
  bool copies_ = false;  ///< it is over one rank, and no side is scattered
  bool written_ = true;  ///< false where no rank gives this one a result: it holds zeros
  sched::BufferId in_, out_;
  Side from_, to_;  ///< of `in_` and `out_`
  std::vector<Call> calls_;
  std::vector<CollectiveCall::Operands> operands_;  ///< of the members, during the calls of a run
  std::vector<CollectiveCall> group_calls_;
};

}  // namespace coconet::jit
