// Which of a schedule's overlaps a machine has room for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "jit/platform/platform.h"
#include "sched/plan.h"

namespace coconet::jit {

struct ChosenPlan {
  sched::Plan plan;                 ///< with the overlaps that there is room for
  std::vector<std::string> notes;   ///< for people: a sentence for each of the others
  bool shares_cores = false;        ///< some of them run at once on fewer cores than threads
  bool collectives_by_mpi = false;  ///< library collectives on the host, whatever the bytes
};

/// The plan of `chosen`, which it keeps.
[[nodiscard]] inline std::shared_ptr<const sched::Plan> plan_of(
    const std::shared_ptr<const ChosenPlan>& chosen) {
  return {chosen, &chosen->plan};
}

/// Collective: the plan of a scheduled program. An overlap that `platform` has no room for,
/// whatever grids its kernels get, is taken out before kernels are written: those of steps that run
/// one after the other need no mailboxes. Throws ScheduleError.
[[nodiscard]] ChosenPlan choose_plan(Comm& comm, const Platform& platform, const ir::Graph& graph,
                                     const Config& config);

/// "steps 'layer' to 'mlp_block_fused' run one after the other: " and why.
[[nodiscard]] std::string describe_dropped(const sched::Plan& plan, const sched::Overlap& overlap,
                                           const std::string& why);

/// The steps of `overlap`, without their blocks.
[[nodiscard]] Simultaneous steps_of(const sched::Plan& plan, const sched::Overlap& overlap,
                                    const Config& config);

}  // namespace coconet::jit
