// Taking overlaps without room out of programs.
#include "jit/run/overlaps.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/config.h"
#include "jit/comm/comm.h"
#include "sched/overlaps.h"

namespace coconet::jit {

namespace {

/// "steps 'layer' to 'mlp_block_fused' run one after the other: " and why.
std::string describe_dropped(const sched::Plan& plan, const sched::Overlap& overlap,
                             const std::string& why) {
  const auto name = [&](std::size_t index) {
    return std::visit([](const auto& step) { return step.name; }, plan.steps[index]);
  };
  return fmt::format("steps '{}' to '{}' run one after the other: {}", name(overlap.first),
                     name(overlap.first + overlap.count - 1), why);
}

bool is_kernel(const sched::PlanStep& step) {
  return std::holds_alternative<sched::KernelStep>(step);
}

/// The steps of `overlap`, without their blocks.
Simultaneous steps_of(const sched::Plan& plan, const sched::Overlap& overlap,
                      const Config& config) {
  const auto steps = std::span(plan.steps).subspan(overlap.first, overlap.count);
  return {.steps = static_cast<int>(overlap.count),
          .multiplies = !std::ranges::all_of(steps, is_kernel),
          .forced = config.overlap == "on"};
}

}  // namespace

ChosenPlan choose_plan(Comm& comm, const Platform& platform, const ir::Graph& graph,
                       const Config& config) {
  ChosenPlan chosen;
  together(comm, [&] { chosen.plan = sched::lower(graph); });
  ir::Graph roomy = graph;
  for (const sched::Overlap& overlap : chosen.plan.overlaps) {
    std::string problem = "COCONET_OVERLAP is off";
    if (config.overlap != "off") {
      const Room room = platform.room_for(comm, steps_of(chosen.plan, overlap, config));
      chosen.shares_cores |= room.enough && room.shared;
      if (room.enough) continue;
      problem = room.problem;
    }
    roomy = sched::without_overlap(std::move(roomy), overlap);
    chosen.notes.push_back(describe_dropped(chosen.plan, overlap, problem));
  }
  if (!chosen.notes.empty()) together(comm, [&] { chosen.plan = sched::lower(roomy); });
  return chosen;
}

std::vector<sched::Overlap> overlaps_with_room(Comm& comm, const Platform& platform,
                                               const sched::Plan& plan, std::span<const Grid> grids,
                                               const Config& config,
                                               std::vector<std::string>& notes) {
  std::vector<sched::Overlap> roomy;
  for (const sched::Overlap& overlap : plan.overlaps) {
    Simultaneous steps = steps_of(plan, overlap, config);
    const auto first = plan.steps.begin() + static_cast<std::ptrdiff_t>(overlap.first);
    const auto end = first + static_cast<std::ptrdiff_t>(overlap.count);
    const auto kernels_before = std::count_if(plan.steps.begin(), first, is_kernel);
    for (const Grid& grid : grids.subspan(kernels_before, std::count_if(first, end, is_kernel)))
      steps.blocks += grid.blocks * grid.ranks;
    const Room room = platform.room_for(comm, steps);
    if (room.enough) {
      roomy.push_back(overlap);
    } else {
      notes.push_back(describe_dropped(plan, overlap, room.problem));
    }
  }
  return roomy;
}

}  // namespace coconet::jit
