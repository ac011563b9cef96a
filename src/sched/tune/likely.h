// Schedules that are likely quick, where nothing was measured: few steps, each chosen by the model.
#pragma once

#include <vector>

#include "ir/extents.h"
#include "sched/cost/cluster.h"
#include "sched/schedule.h"

namespace coconet::sched {

/// The schedules that ship with `program`, for its mesh, where they are legal and keep no state
/// sliced that may not be; nothing where it only has the name of one that ships.
[[nodiscard]] std::vector<Steps> shipped_schedules_of(const Program& program);

/// The steps of whatever `cluster` is predicted to take the least time for: `graph` with kernels of
/// what it computes; or with its all_reduces in halves (split), what is computed behind them
/// between these (reorder), states that may be kept sliced (as_slice), and kernels of all that
/// (fuse, overlap); or as it is. `sizes` has the extents of all symbols, and the mesh the cluster's
/// ranks.
[[nodiscard]] std::vector<Step> likely_steps(const ir::Graph& graph, const ir::Sizes& sizes,
                                             const Cluster& cluster);

/// Steps to the same layouts of inputs, states and outputs as `steps` lead to, with kernels none of
/// which exchanges data: all collectives are the library's. Throws where `steps` are not legal
/// without their kernels.
[[nodiscard]] std::vector<Step> steps_without_exchanges(const ir::Graph& graph,
                                                        const std::vector<Step>& steps,
                                                        const ir::Sizes& sizes,
                                                        const Cluster& cluster);

}  // namespace coconet::sched
