// Finds the matrices of a matmul on a rank.
#pragma once

#include "jit/bind/rank_plan.h"
#include "jit/platform/matmul_shape.h"

namespace coconet::jit {

/// For this rank's part of `step`. Throws BackendError for matrices that BLAS libraries cannot
/// count.
[[nodiscard]] MatmulShape matmul_shape(const RankPlan& plan, const sched::MatmulStep& step);

}  // namespace coconet::jit
