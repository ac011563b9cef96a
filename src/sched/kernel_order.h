// Whether a kernel can run as a whole: what it waits for, and what holds it together.
#pragma once

#include <set>

#include "ir/graph.h"

namespace coconet::sched {

/// Whether kernels of `graph` wait for each other: whether no order of them, each as a whole, and
/// of the other values has everything behind what it reads.
[[nodiscard]] bool has_cycle(const ir::Graph& graph);

/// Throws ScheduleError where a kernel of `members` would wait for itself: what is computed from
/// its results outside of it may not be needed by it. Other kernels run as a whole: reading one of
/// their results waits for everything that they read.
void refuse_cycle(const ir::Graph& graph, const std::set<ir::ValueId>& members);

/// Throws ScheduleError where `members` fall apart: ops that share no value, not even an operand,
/// gain nothing from one kernel and make its domain ambiguous.
void refuse_gap(const ir::Graph& graph, const std::set<ir::ValueId>& members);

}  // namespace coconet::sched
