// What the application reads and writes of a program, which no step of a schedule changes.
#pragma once

#include <span>

#include "ir/graph.h"
#include "sched/transform.h"

namespace coconet::sched {

/// Throws ScheduleError unless all inputs, states and outputs of `before` have the same dtype,
/// shape and layout in `after`, the program after `steps` of one transformation; but for the
/// layouts of the states that an as_slice is asked to change.
void require_same_interface(const ir::Graph& before, const ir::Graph& after,
                            std::span<const Step> steps);

}  // namespace coconet::sched
