// coconet::Scheduler: handles to names, and steps one by one.
#include "coconet/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "sched/kernels.h"
#include "sched/schedule.h"
#include "sched/transform.h"

namespace coconet {

struct Scheduler::State {
  Schedule schedule;
  std::vector<Program> programs;  ///< before each step, and after the last
};

using ir::Op;

Handles::Handles(const Value& value) : handles_{{value.name(), ir::graph_of(value), false}} {}

std::vector<std::string> Handles::names() const {
  std::vector<std::string> names;
  for (const Handle& handle : handles_) names.push_back(handle.name);
  return names;
}

Scheduler::Scheduler(const Program& program, std::string name)
    : state_(std::make_unique<State>(State{Schedule(std::move(name)), {program}})) {}
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

std::pair<Value, Value> Scheduler::split(const Handles& all_reduce, int dim) {
  const std::string name = resolve_one(all_reduce, "split");
  apply(Schedule(state_->schedule).split(name, "reduce_scatter+all_gather", dim));
  return {value(name + ".reduce_scatter"), value(name + ".all_gather")};
}

std::pair<Value, Value> Scheduler::split_at_root(const Handles& all_reduce) {
  const std::string name = resolve_one(all_reduce, "split_at_root");
  apply(Schedule(state_->schedule).split(name, "reduce+broadcast"));
  return {value(name + ".reduce"), value(name + ".broadcast")};
}

std::tuple<Value, Value, Value> Scheduler::split_hierarchical(const Handles& all_reduce, int dim) {
  const std::string name = resolve_one(all_reduce, "split_hierarchical");
  apply(Schedule(state_->schedule).split(name, "hierarchical", dim));
  return {value(name + ".reduce_scatter"), value(name + ".all_reduce"),
          value(name + ".all_gather")};
}

Handles Scheduler::reorder(const Handles& all_gather, const Handles& before) {
  apply(Schedule(state_->schedule)
            .reorder(resolve_one(all_gather, "reorder"), resolve(before, "reorder")));
  const std::shared_ptr<ir::Graph>& graph = ir::graph_of(program());
  const ir::Graph& old = *ir::graph_of(state_->programs[state_->programs.size() - 2]);
  Handles gathered;
  for (const ir::Node& node : graph->nodes()) {
    if (node.op == Op::all_gather && old.find(node.name) < 0)
      gathered.handles_.push_back({node.name, graph, true});
  }
  return gathered;
}

void Scheduler::as_slice(const Handles& state) {
  apply(Schedule(state_->schedule).as_slice(resolve_one(state, "as_slice")));
}

void Scheduler::dead() {
  apply(Schedule(state_->schedule).dead());
}

std::string Scheduler::fuse(const std::string& kernel, const Handles& ops, const Knobs& knobs) {
  const std::vector<std::string> names = resolve(ops, "fuse");
  apply(Schedule(state_->schedule)
            .fuse(kernel, std::string(to_string(sched::kind_of(*ir::graph_of(program()), names))),
                  names, knobs));
  return kernel;
}

void Scheduler::overlap(const Handles& steps) {
  // Kernels are no values; the transformation says which names there are.
  apply(Schedule(state_->schedule).overlap(steps.names()));
}

const Schedule& Scheduler::schedule() const {
  return state_->schedule;
}

const Program& Scheduler::program() const {
  return state_->programs.back();
}

Value Scheduler::value(std::string_view name) const {
  return ir::value_of(ir::graph_of(program()),
                      sched::require_value(*ir::graph_of(program()), name));
}

std::vector<std::string> Scheduler::legal() const {
  std::vector<std::string> steps;
  for (const sched::Step& step : sched::candidate_steps(*ir::graph_of(program())))
    steps.push_back(to_string(step));
  return steps;
}

std::vector<std::string> Scheduler::resolve(const Handles& handles, const char* call) const {
  const ir::Graph& graph = *ir::graph_of(program());
  std::vector<std::string> names;
  for (const Handles::Handle& handle : handles.handles_) {
    const bool is_ours = handle.graph == nullptr ||
                         std::ranges::any_of(state_->programs, [&](const Program& program) {
                           return ir::graph_of(program) == handle.graph;
                         });
    if (!is_ours) {
      throw ScheduleError(
          fmt::format("{}: '{}' is a value of program '{}', and this scheduler's is "
                      "'{}'; name values of the program that it was made for",
                      call, handle.name, handle.graph->name, graph.name));
    }
    if (handle.may_be_gone && graph.find(handle.name) < 0) continue;
    names.push_back(handle.name);
  }
  return names;
}

std::string Scheduler::resolve_one(const Handles& handles, const char* call) const {
  const std::vector<std::string> names = resolve(handles, call);
  if (names.size() == 1) return names.front();
  throw ScheduleError(fmt::format("{} takes one value, and got {}", call, names.size()));
}

void Scheduler::apply(Schedule next) {
  state_->programs.push_back(sched::apply_step(program(), sched::steps_of(next), next.size() - 1));
  state_->schedule = std::move(next);
}

}  // namespace coconet
