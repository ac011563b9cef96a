// Taking overlaps without room out of programs.
#include "jit/run/overlaps.h"

#include <fmt/format.h>

#include "coconet/config.h"
#include "jit/comm/comm.h"
#include "sched/overlaps.h"

namespace coconet::jit {

std::string describe_dropped(const sched::Plan& plan, const sched::Overlap& overlap,
                             const std::string& why) {
  const auto name = [&](std::size_t index) {
    return std::visit([](const auto& step) { return step.name; }, plan.steps[index]);
  };
  return fmt::format("steps '{}' to '{}' run one after the other: {}", name(overlap.first),
                     name(overlap.first + overlap.count - 1), why);
}

Simultaneous steps_of(const sched::Plan& plan, const sched::Overlap& overlap,
                      const Config& config) {
  Simultaneous steps{.steps = static_cast<int>(overlap.count), .forced = config.overlap == "on"};
  for (std::size_t index = overlap.first; index < overlap.first + overlap.count; ++index)
    steps.multiplies |= !std::holds_alternative<sched::KernelStep>(plan.steps[index]);
  return steps;
}

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

}  // namespace coconet::jit
