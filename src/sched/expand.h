// Lowering's first rewrites: ops that no kernel or library collective does in one go become several that do.
#pragma once

#include "ir/graph.h"

namespace coconet::sched {

/// A library collective that takes the mean becomes a sum and a division, which joins the kernel that reads it.
/// Fused collectives divide themselves.
[[nodiscard]] ir::Graph expand_means(const ir::Graph& graph);

/// A reduction over a dimension that is sliced across ranks becomes one over each rank's slice and an
/// all_reduce of the (smaller) results.
[[nodiscard]] ir::Graph expand_cross_rank_reductions(const ir::Graph& graph);

}  // namespace coconet::sched
