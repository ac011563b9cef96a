// The matrices that a product of tensors is on a rank.
#pragma once

#include "jit/bind/rank_plan.h"
#include "jit/platform/matmul_shape.h"

namespace coconet::jit {

/// The matrices of a step, and whether the left ones are those of its second operand.
struct ProductShape {
  MatmulShape matrices;
  bool swapped = false;
};

/// On this rank, for so many `cores`. Throws BackendError for matrices that BLAS libraries cannot
/// count.
[[nodiscard]] ProductShape product_shape(const RankPlan& plan, const sched::MatmulStep& step,
                                         int cores);

}  // namespace coconet::jit
