// Library collectives: a call is data, and each kind of world and platform has one function that
// carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/program.h"
#include "ir/op.h"

namespace coconet::jit {

class Queue;

/// One call. Ranks are positions in the group; counts are elements.
/// - all_reduce: `in` and `out` hold `count`
/// - reduce_scatter: `in` holds a block for each rank, `counts[i]` for rank i; `out` the own one
/// - all_gather: `in` holds the own block, `out` all of them
/// - all_to_all: `in` holds a block for each rank, `out` one from each;
///   `counts[p * ranks + q]` for the block from rank p to rank q
/// - reduce: `out` is written on `root` only
/// - broadcast: from the root's `in` to every `out`, which may be the same memory
/// - send: from `in` of rank p to `out` of rank p + `offset`; an `out` that no rank sends to is not
///   written
/// Blocks lie one after the other, in the order of the ranks.
struct CollectiveCall {
  /// A rank's tensors, which do not overlap.
  struct Operands {
    const void* in = nullptr;
    void* out = nullptr;
  };

  ir::Op op;
  DType dtype;
  Reduction reduction = Reduction::sum;      ///< a mean is of floats only
  std::size_t count = 0;                     ///< of the ops that have no blocks
  std::span<const std::size_t> counts = {};  ///< of the blocks, of those that do
  int root = 0;
  int offset = 0;                           ///< not 0
  std::span<const Operands> operands = {};  ///< of each rank that the caller drives with one queue
  /// Whether MPI carries it out, whatever the bytes, in worlds that have it.
  bool by_mpi = false;
  /// Where ranks meet on the host they compare it before anything is written, and throw Differs.
  std::uint64_t given = 0;
  int cores = 1;  ///< of each rank on the host, over which it spreads what it reads and combines

  /// The length of `counts` in a group of `ranks`; 0 for the ops that have no blocks.
  [[nodiscard]] std::size_t blocks(int ranks) const;
  /// Elements of `in` that other ranks read of the rank at `position` in a group of `ranks`.
  [[nodiscard]] std::size_t shown(int position, int ranks) const;
};

/// Carries out calls among some ranks of a world: those along one mesh axis. A process drives one
/// of them or, where one launch runs them all, the whole group.
class COCONET_API Collectives {
 public:
  virtual ~Collectives() = default;
  /// Collective over the group. On the host it blocks and does not look at the queue; on GPUs it
  /// puts work there.
  virtual void run(Queue& queue, const CollectiveCall& call) = 0;
  /// `run` of several calls of one op, as a tensor that is scattered over buffers needs one for
  /// each: ranks may meet for all of them together.
  virtual void run_all(Queue& queue, std::span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) run(queue, call);
  }
  /// Collective over the group: calls whose operands all lie in `memory`, the same number of bytes
  /// on all ranks, may be quicker from here on. It must outlive the group, or the next such call,
  /// which replaces it. Throws CommError.
  virtual void open(std::span<std::byte> memory) { (void)memory; }
  /// On the host: instead of the next call, which then throws Refused on the other ranks, before it
  /// writes anything. Does not wait. The ranks must agree by other means before they use the group
  /// again.
  virtual void refuse() {}
  /// Whether what is queued ends only with other processes' work, so that whoever waits for it must
  /// look after it.
  [[nodiscard]] virtual bool needs_watching() const { return false; }
  /// Throws CommError when work that was queued has failed, or another rank has.
  virtual void check() {}
  /// Ends what is queued and will not end by itself; no call can follow.
  virtual void abort() noexcept {}
};

/// Where each rank's block starts, and at the end the number of elements of all blocks.
[[nodiscard]] COCONET_API std::vector<std::size_t> block_starts(
    std::span<const std::size_t> counts);

/// Throws InternalError unless `call` has one count for each of the group's `ranks`, where it has
/// blocks, and its root is one of them.
COCONET_API void require_sane(const CollectiveCall& call, int ranks);

/// For calls whose op is none of the collectives.
[[noreturn]] COCONET_API void throw_unknown(const CollectiveCall& call);

}  // namespace coconet::jit
