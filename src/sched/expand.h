// Lowering's first rewrites: ops that no kernel or library collective does in one go become several that do.
#pragma once

#include "ir/graph.h"

namespace coconet::sched {

/// A reduction over a dimension that is sliced across ranks becomes one over each rank's slice and an
/// all_reduce of the (smaller) results.
[[nodiscard]] ir::Graph expand_cross_rank_reductions(const ir::Graph& graph);

/// What reads a state's old value but has to run after the kernel that overwrites it (see `overwritten_reads`) gets a
/// copy of the old value: a cast to its own dtype, which grouping makes a step of its own.
[[nodiscard]] ir::Graph expand_overwritten_reads(const ir::Graph& graph);

/// Whether `id` is such a copy.
[[nodiscard]] bool is_copy(const ir::Graph& graph, ir::ValueId id);

}  // namespace coconet::sched
