// Canonical forms of programs and plans.
#include "sched/tune/canonical.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "ir/knobs.h"
#include "sched/rewrite.h"

namespace coconet::sched {

namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// All that makes `node` what it is, its operands being `numbers`.
std::string describe(const Graph& graph, const Node& node, std::vector<int> numbers) {
  return fmt::format(
      "{} {} {} {} {} ({}) {} [{}]", to_string(node.op), ir::is_given(node.op) ? node.name : "",
      to_string(node.dtype), ir::to_string(node.shape), ir::to_string(node.layout, graph.mesh),
      fmt::join(numbers, ","), node.weak, fmt::join(ir::attribute_texts(graph, node), ","));
}

std::string describe(const Knobs& knobs) {
  std::string text;
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (row.is_set(knobs)) text += fmt::format(" {}={}", row.name, row.value(knobs));
  }
  return text;
}

}  // namespace

int Canonical::number(const std::string& text) {
  return numbers_.try_emplace(text, static_cast<int>(numbers_.size())).first->second;
}

Indexed<int> Canonical::number_values(const Graph& graph) {
  Indexed<int> numbers(graph.size(), -1);
  for (const ValueId id : live_values(graph)) {
    const Node& node = graph.at(id);
    std::vector<int> operands;
    for (const ValueId operand : node.operands) operands.push_back(numbers[operand]);
    numbers[id] = number(describe(graph, node, operands));
  }
  return numbers;
}

std::string Canonical::key(const Graph& graph) {
  const Indexed<int> numbers = number_values(graph);
  const auto sorted = [&](const std::vector<ValueId>& ids) {
    std::vector<int> result;
    for (const ValueId id : ids) {
      if (numbers[id] >= 0) result.push_back(numbers[id]);
    }
    std::ranges::sort(result);
    return result;
  };
  std::vector<ValueId> kept;  // what the program is for, beside its outputs
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op == Op::state || graph.at(id).op == Op::update) kept.push_back(id);
  }
  std::vector<std::string> rest;
  for (const ir::Output& output : graph.outputs())
    rest.push_back(fmt::format("{}={}", output.name, numbers[output.value]));
  for (const ir::Fusion& fusion : graph.fusions()) {
    rest.push_back(fmt::format("{}{} of {} while {}", to_string(fusion.kind),
                               describe(fusion.knobs), fmt::join(sorted(fusion.members), ","),
                               fmt::join(sorted(fusion.arriving), ",")));
  }
  std::ranges::sort(rest);
  return fmt::format("{}; {}", fmt::join(sorted(kept), ","), fmt::join(rest, "; "));
}

std::string Canonical::key(Plan plan) {
  const Indexed<int> numbers = number_values(plan.graph);
  std::map<std::string, std::string> renamed;
  for (ValueId id = 0; id < plan.graph.size(); ++id) {
    const Node& node = plan.graph.at(id);
    if (ir::is_given(node.op)) continue;
    std::string& name = renamed[node.name];
    name = fmt::format("v{}", numbers[id]);
    plan.graph.rename(id, name);
  }
  for (PlanBuffer& buffer : plan.buffers) {
    const auto found = renamed.find(buffer.name);
    if (buffer.role == PlanBuffer::Role::temporary && found != renamed.end())
      buffer.name = found->second;
  }
  int kernels = 0;
  std::string knobs;
  for (PlanStep& step : plan.steps) {
    auto* kernel = std::get_if<KernelStep>(&step);
    if (kernel == nullptr) continue;
    kernel->name = fmt::format("k{}", kernels++);
    knobs += fmt::format("{}{};", kernel->name, describe(kernel->knobs));
  }
  return print(plan) + knobs;
}

}  // namespace coconet::sched
