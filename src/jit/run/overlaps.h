// Which of a schedule's overlaps a machine has room for: decided before kernels are written, and
// again with the grids that they got.
#pragma once

#include <memory>
#include <span>
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

/// Collective: the overlaps of `plan` whose steps there is room for with `grids`, those of its
/// kernel steps in their order. `notes` gets a sentence for each of the others.
[[nodiscard]] std::vector<sched::Overlap> overlaps_with_room(Comm& comm, const Platform& platform,
                                                             const sched::Plan& plan,
                                                             std::span<const Grid> grids,
                                                             const Config& config,
                                                             std::vector<std::string>& notes);

}  // namespace coconet::jit
