// The rewriter and the reachability questions that transformations ask.
#include "sched/rewrite.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"

namespace coconet::sched {

using ir::Graph;
using ir::Node;
using ir::ValueId;

Rewriter::Rewriter(const Graph& from) : from_(from), map_(from.nodes().size(), -1) {
  to_.name = from.name;
  to_.mesh = from.mesh;
  to_.dims = from.dims;
  to_.reserve(from.nodes().size());
}

ValueId Rewriter::copy(ValueId id) {
  Node node = from_.at(id);
  for (ValueId& operand : node.operands) {
    operand = map(operand);
    if (operand < 0) throw InternalError("'" + node.name + "' is copied before its operands");
  }
  const ValueId copied = append(to_, std::move(node));
  set(id, copied);
  return copied;
}

ValueId Rewriter::add(Node node) {
  if (node.name.empty()) node.name = fresh_name(std::string(to_string(node.op)));
  return append(to_, std::move(node));
}

std::string Rewriter::fresh_name(const std::string& stem) {
  const auto is_free = [&](const std::string& name) {
    return from_.name_free(name) && to_.name_free(name);
  };
  if (is_free(stem)) return stem;
  int& number = numbers_.try_emplace(stem, 2).first->second;
  while (!is_free(fmt::format("{}_{}", stem, number))) ++number;
  return fmt::format("{}_{}", stem, number);
}

Graph Rewriter::finish() {
  for (const ir::Output& output : from_.outputs()) to_.add_output({output.name, map(output.value)});
  const auto mapped = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> kept;
    for (const ValueId id : ids) {
      if (map(id) >= 0) kept.push_back(map(id));
    }
    std::ranges::sort(kept);
    return kept;
  };
  int number = 0;
  for (ir::Fusion fusion : from_.fusions()) {
    fusion.members = mapped(fusion.members);
    const auto [begin, end] = joining_.equal_range(number++);
    for (auto joined = begin; joined != end; ++joined) fusion.members.push_back(joined->second);
    std::ranges::sort(fusion.members);
    fusion.arriving = mapped(fusion.arriving);
    if (!fusion.members.empty()) to_.add_fusion(std::move(fusion));
  }
  return std::move(to_);
}

namespace {

ValueSet with_ancestors(const Graph& graph, ValueSet ids) {
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (!ids.contains(id)) continue;
    for (const ValueId operand : graph.at(id).operands) ids.insert(operand);
  }
  return ids;
}

}  // namespace

ValueSet ancestors(const Graph& graph, const std::set<ValueId>& ids) {
  return with_ancestors(graph, {graph, ids});
}

ValueSet descendants(const Graph& graph, const std::set<ValueId>& ids) {
  ValueSet result(graph, ids);
  for (ValueId id = 0; id < graph.size(); ++id) {
    const auto depends = [&](ValueId operand) { return result.contains(operand); };
    if (std::ranges::any_of(graph.at(id).operands, depends)) result.insert(id);
  }
  return result;
}

ValueSet live_values(const Graph& graph) {
  ValueSet roots(graph);
  for (ValueId id = 0; id < graph.size(); ++id) {
    const ir::Op op = graph.at(id).op;
    if (op == ir::Op::update || ir::is_given(op)) roots.insert(id);
  }
  for (const ir::Output& output : graph.outputs()) roots.insert(output.value);
  return with_ancestors(graph, std::move(roots));
}

Graph drop_dead(const Graph& graph) {
  const ValueSet live = live_values(graph);
  Rewriter rewriter(graph);
  for (const ValueId id : live) rewriter.copy(id);
  return rewriter.finish();
}

}  // namespace coconet::sched
