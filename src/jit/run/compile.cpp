// Compiling: schedule, lower, agree, generate, compile, load, allocate.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "ir/lists.h"
#include "jit/comm/access.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/configure.h"
#include "jit/config/log.h"
#include "jit/run/agreement.h"
#include "jit/run/compile.h"
#include "jit/run/executable_state.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet {
namespace {

/// What all ranks must have alike of `config` and is not the default.
std::string settings_of(const Config& config) {
  std::vector<std::string> set = jit::common_settings(config);
  const std::vector<std::string> defaults = jit::common_settings(Config());
  std::erase_if(set, [&](const std::string& one) {
    return std::ranges::find(defaults, one) != defaults.end();
  });
  return set.empty() ? "none set" : fmt::format("{}", fmt::join(set, ", "));
}

/// Collective: throws on every rank when ranks compile other things than rank 0, naming them.
void check_agreement(jit::Comm& comm, const Program& program, const Schedule& schedule,
                     const std::map<std::string, std::int64_t>& sizes, const ir::Lists& lists,
                     const Config& config) {
  if (comm.size() == 1) return;
  std::string steps;
  for (std::size_t step = 0; step < schedule.size(); ++step)
    steps += (step == 0 ? ": " : "; ") + schedule.step(step);
  const std::string settings = settings_of(config);
  const std::string ops = ir::definitions_of(*ir::graph_of(program));
  const jit::Given given[] = {
      {"another program", program.json(), fmt::format("program '{}'", program.name())},
      {"another definition of an op", ops, ops},
      {"another schedule", schedule.json(), fmt::format("schedule '{}'{}", schedule.name(), steps)},
      {"other sizes", jit::text_of(sizes), "sizes " + jit::text_of(sizes)},
      {"other lists of buffers", jit::text_of(lists), "lists of " + jit::text_of(lists)},
      {"other settings", settings, settings}};
  jit::require_agreement(comm, "all ranks must compile the same", given);
}

/// The program after each step at level trace, the plan at level debug.
void log_lowering(const Schedule& schedule, const std::vector<Program>& programs,
                  const sched::Plan& plan) {
  if (jit::log_enabled(LogLevel::trace)) {
    for (std::size_t step = 0; step < programs.size(); ++step) {
      jit::log_trace((step == 0 ? "the program as written" : "after " + schedule.step(step - 1)) +
                     "\n" + programs[step].str());
    }
  }
  if (jit::log_enabled(LogLevel::debug)) jit::log_debug("the plan\n" + sched::print(plan));
}

}  // namespace

void jit::require_mesh(const Program& program, const World& world) {
  if (program.mesh().size() == world.size()) return;
  throw ProgramError(fmt::format(
      "program '{}' is written for {} ranks, mesh {}, but the world has {}; use Mesh::over(world), "
      "or start that many ranks",
      program.name(), program.mesh().size(), program.mesh().str(), world.size()));
}

void jit::require_on_nodes(const sched::Plan& plan, const Nodes& nodes) {
  const Mesh& mesh = plan.graph.mesh;
  for (const sched::PlanStep& step : plan.steps) {
    const auto* kernel = std::get_if<sched::KernelStep>(&step);
    if (kernel == nullptr || !kernel->is_collective) continue;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<int> group = mesh.group(rank, kernel->axis);
      if (nodes.share(group)) continue;
      throw ScheduleError(fmt::format(
          "kernel '{}' exchanges data along the mesh axis '{}', whose ranks are on several nodes "
          "({}), and only ranks that share memory exchange data inside a kernel; leave the "
          "collective to the library, or write the program for a mesh with an axis inside the "
          "nodes, such as {{node, gpu}}, split its all_reduce into hierarchical, and fuse along "
          "that axis",
          kernel->name, mesh.axes()[kernel->axis].name, nodes.places(group)));
    }
  }
}

Executable jit::compile_scheduled(const Program& program, const Schedule& schedule,
                                  const World& world, const Sizes& sizes,
                                  const ParameterLists& lists, const CompileChoices& choices) {
  jit::Comm& comm = jit::comm_of(world);
  Sizes resolved;
  ir::Lists resolved_lists;
  std::vector<Program> scheduled;
  const jit::Platform* platform = nullptr;
  const std::shared_ptr<const Config> config =
      choices.config ? choices.config : comm.shared_config();
  jit::together(comm, [&] {
    platform = &jit::platform_of(comm, *config);
    require_mesh(program, world);
    resolved = ir::resolve_sizes(*ir::graph_of(program), sizes, lists);
    resolved_lists = ir::resolve_lists(*ir::graph_of(program), resolved, lists);
    scheduled = schedule.apply(program);
    scheduled.back() = sched::with_knobs(scheduled.back(), config->knobs);
  });
  check_agreement(comm, program, schedule, resolved, resolved_lists, *config);
  jit::ChosenPlan chosen =
      jit::choose_plan(comm, *platform, *ir::graph_of(scheduled.back()), *config);
  chosen.notes.insert(chosen.notes.begin(), choices.notes.begin(), choices.notes.end());
  chosen.collectives_by_mpi = choices.collectives_by_mpi || config->collectives == "mpi";
  jit::together(comm, [&] {
    require_on_nodes(chosen.plan, comm.nodes());
    if (comm.rank() == 0) log_lowering(schedule, scheduled, chosen.plan);
  });
  return Executable(std::make_unique<Executable::State>(world, *platform, config, scheduled.back(),
                                                        std::move(chosen), std::move(resolved),
                                                        std::move(resolved_lists)));
}

}  // namespace coconet
