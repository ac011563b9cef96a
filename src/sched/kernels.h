// What a kernel may hold: the rules that each kernel of a scheduled program keeps, when a step
// makes it and after every later step.
#pragma once

#include <set>

#include "ir/graph.h"

namespace coconet::sched {

/// Throws ScheduleError with the rule that is broken when `members` cannot run as one kernel of
/// `kind`, beside the kernels that `graph` has.
void check_kernel(const ir::Graph& graph, ir::Fusion::Kind kind,
                  const std::set<ir::ValueId>& members);

/// Checks all kernels of `graph`: a rewrite may have changed what they hold, and a program file may
/// say anything.
void check_kernels(const ir::Graph& graph);

}  // namespace coconet::sched
