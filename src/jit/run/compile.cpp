// compile(): schedule, lower, agree, generate, compile, load, allocate.
#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/lists.h"
#include "jit/cache/digest.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/log.h"
#include "jit/run/executable_state.h"
#include "sched/knobs.h"
#include "sched/schedule.h"

namespace coconet {

namespace {

void check_mesh(const Program& program, const World& world) {
  if (program.mesh().size() == world.size()) return;
  throw ProgramError("program '" + program.name() + "' is written for " +
                     std::to_string(program.mesh().size()) + " ranks, mesh " +
                     program.mesh().str() + ", but the world has " + std::to_string(world.size()) +
                     "; use Mesh::over(world), or start that many ranks");
}

std::string text_of(const std::map<std::string, std::int64_t>& sizes) {
  std::string text;
  for (const auto& [name, extent] : sizes)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(extent);
  return text;
}

/// The lengths of all buffers.
std::string text_of(const ir::Lists& lists) {
  std::string text;
  for (const auto& [name, lengths] : lists) {
    text += (text.empty() ? "" : ", ") + name + ":";
    for (const std::int64_t length : lengths) text += " " + std::to_string(length);
  }
  return text;
}

/// Knobs as text: those that are set, by their variables.
std::string text_of(const Knobs& knobs) {
  std::string text;
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (!row.is_set(knobs)) continue;
    text += text.empty() ? "" : ", ";
    text += std::string(row.variable) + "=" + row.value(knobs);
  }
  return text.empty() ? "none set" : text;
}

/// Collective: throws on every rank when the ranks compile different things, naming those that
/// differ from rank 0.
void check_agreement(jit::Comm& comm, const Program& program, const Schedule& schedule,
                     const std::map<std::string, std::int64_t>& sizes, const ir::Lists& lists) {
  if (comm.size() == 1) return;
  const std::string knobs = text_of(config().knobs);
  const std::string buffers = text_of(lists);
  const std::string all[] = {program.json(), schedule.json(), text_of(sizes), buffers, knobs};
  const char* const names[] = {"another program", "another schedule", "other sizes",
                               "other lists of buffers", "other knobs in its environment"};
  std::string steps;
  for (std::size_t step = 0; step < schedule.size(); ++step)
    steps += (step == 0 ? ": " : "; ") + schedule.step(step);
  const std::string shown[] = {"program '" + program.name() + "'",
                               "schedule '" + schedule.name() + "'" + steps,
                               "sizes " + text_of(sizes), "lists of " + buffers, knobs};
  std::string digests;
  for (const std::string& part : all) digests += jit::sha256_hex(part);
  const std::vector<std::string> others = comm.all_gather(digests);
  const std::size_t length = digests.size() / std::size(all);
  for (std::size_t part = 0; part < std::size(all); ++part) {
    const auto digest = [&](std::size_t rank) {
      return others[rank].substr(part * length, length);
    };
    std::string ranks;
    int count = 0;
    for (std::size_t rank = 1; rank < others.size(); ++rank) {
      if (digest(rank) == digest(0)) continue;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
      ++count;
    }
    if (count == 0) continue;
    throw CommError("all ranks must compile the same, but rank" +
                    (count > 1 ? std::string("s ") : std::string(" ")) + ranks +
                    (count > 1 ? " have " : " has ") + names[part] + " than rank 0; rank " +
                    std::to_string(comm.rank()) + " has " + shown[part]);
  }
}

/// Throws ScheduleError when ranks would reach into the memory of another node from inside a
/// kernel.
void check_nodes(const sched::Plan& plan, const jit::Nodes& nodes) {
  const Mesh& mesh = plan.graph.mesh;
  for (const sched::PlanStep& step : plan.steps) {
    const auto* kernel = std::get_if<sched::KernelStep>(&step);
    if (kernel == nullptr || !kernel->is_collective) continue;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<int> group = mesh.group(rank, kernel->axis);
      if (nodes.share(group)) continue;
      throw ScheduleError(
          "kernel '" + kernel->name + "' exchanges data along the mesh axis '" +
          mesh.axes()[static_cast<std::size_t>(kernel->axis)].name +
          "', whose ranks are on several nodes (" + nodes.places(group) +
          "), and only ranks that share memory exchange data inside a kernel; leave the collective "
          "to "
          "the library, or write the program for a mesh with an axis inside the nodes, such as "
          "{node, gpu}, split its all_reduce into hierarchical, and fuse along that axis");
    }
  }
}

/// The program after each step at level trace, the plan at level debug.
void log_lowering(const Schedule& schedule, const std::vector<Program>& programs,
                  const sched::Plan& plan) {
  if (jit::log_enabled(jit::LogLevel::trace)) {
    for (std::size_t step = 0; step < programs.size(); ++step) {
      jit::log_trace((step == 0 ? "the program as written" : "after " + schedule.step(step - 1)) +
                     "\n" + programs[step].str());
    }
  }
  if (jit::log_enabled(jit::LogLevel::debug)) jit::log_debug("the plan\n" + sched::print(plan));
}

}  // namespace

Executable compile(const Program& program, const Schedule& schedule, const World& world,
                   const Sizes& sizes, const ParameterLists& lists) {
  jit::Comm& comm = *world.comm();
  Sizes resolved;
  ir::Lists resolved_lists;
  std::vector<Program> scheduled;
  sched::Plan plan;
  const jit::Platform* platform = nullptr;
  jit::together(comm, [&] {
    platform = &jit::platform_of(comm);
    check_mesh(program, world);
    resolved = ir::resolve_sizes(*program.graph(), sizes, lists);
    resolved_lists = ir::resolve_lists(*program.graph(), resolved, lists);
    scheduled = schedule.apply(program);
    scheduled.back() = sched::with_knobs(scheduled.back(), config().knobs);
    plan = sched::lower(*scheduled.back().graph());
    check_nodes(plan, comm.nodes());
    if (comm.rank() == 0) log_lowering(schedule, scheduled, plan);
  });
  check_agreement(comm, program, schedule, resolved, resolved_lists);
  return Executable(std::make_unique<Executable::State>(world, *platform, scheduled.back(),
                                                        std::move(plan), std::move(resolved),
                                                        std::move(resolved_lists)));
}

}  // namespace coconet
