// The phases of a kernel: passes over its domain with reductions between them.
#pragma once

#include <vector>

#include "sched/plan.h"

namespace coconet::sched {

/// Fills in phases, scalars, loads and stores of `step`, a kernel that computes `values` (sorted;
/// updates and collectives included). `buffer_of` has the buffer of each value, or -1. What one
/// phase computes and a later one needs is loaded from where the kernel stores it, or else kept in
/// a temporary buffer, which is added to `plan`.
void divide_into_phases(Plan& plan, const Indexed<BufferId>& buffer_of,
                        const std::vector<ir::ValueId>& values, KernelStep& step);

}  // namespace coconet::sched
