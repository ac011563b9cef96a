// Lowering's first rewrites: ops that no kernel or library collective does in one go become several
// that do.
#pragma once

#include "ir/graph.h"

namespace coconet::sched {

/// What reads a `stop_gradient` or an `in_range` reads its operand, as gradients are written by
/// then and ranges are known, unless a kernel of the schedule or the application names it.
[[nodiscard]] ir::Graph drop_marks(const ir::Graph& graph);

/// A pad becomes what is taken at the places before it where there is something, else 0.
[[nodiscard]] ir::Graph expand_pads(const ir::Graph& graph);

/// A reduction over a dimension that is sliced across ranks becomes one over each rank's slice and
/// an all_reduce of the (smaller) results.
[[nodiscard]] ir::Graph expand_cross_rank_reductions(const ir::Graph& graph);

/// A kernel that is an all_reduce alone becomes one of a reduce_scatter and an all_gather, or of a
/// reduce and a broadcast where there is no dimension to slice.
[[nodiscard]] ir::Graph expand_fused_all_reduces(const ir::Graph& graph);

/// What reads a state's old value but has to run after the kernel that overwrites it (see
/// `overwritten_reads`) gets a copy of the old value, which grouping makes a step of its own.
[[nodiscard]] ir::Graph expand_overwritten_reads(const ir::Graph& graph);

/// What widens 16-bit floats for several kernels is computed in each of them: storing it would take
/// twice the bytes of what it is computed from.
[[nodiscard]] ir::Graph expand_shared_widening(const ir::Graph& graph);

}  // namespace coconet::sched
