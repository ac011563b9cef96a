// One step of the reference as the ops see it, and the functions that compute a value on all ranks.
#pragma once

#include <vector>

#include "ir/reference/reference.h"

namespace coconet::ir {

/// The values so far. Numbers are stored like tensors of rank 0, unrounded.
struct ReferenceStep {
  const Graph& graph;
  const Sizes& sizes;
  const Lists& lists;
  Indexed<const RankData*> values;  ///< by id; null where not computed yet, or not needed any more

  [[nodiscard]] Extents extents(ValueId id) const {
    return global_extents(graph.at(id).shape, sizes);
  }
  [[nodiscard]] Part part(ValueId id, int rank) const { return part_of(graph, id, sizes, rank); }
  [[nodiscard]] const Data& data(ValueId id, int rank) const { return values.at(id)->at(rank); }
};

/// The value `id` on all ranks, from those of its operands. The results are rounded to the node's
/// dtype.
[[nodiscard]] RankData evaluate_elementwise(const ReferenceStep& step,
                                            ValueId id);  ///< also of an update
[[nodiscard]] RankData evaluate_iota(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_reshape(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_take(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_pad(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_random(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_repeat(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_reduction(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_matmul(const ReferenceStep& step, ValueId id);
[[nodiscard]] RankData evaluate_collective(const ReferenceStep& step, ValueId id);

/// What combining nothing gives: 0 for sum and mean, 1 for prod, the infinities for max and min.
[[nodiscard]] double identity(Reduction reduction);
/// `a` and `b` combined; mean adds, and its caller divides. A NaN stays one in max and min.
[[nodiscard]] double combine(Reduction reduction, DType dtype, double a, double b);

}  // namespace coconet::ir
