// The graph's own operations: look-ups, appending a checked node, re-checking a whole graph.
#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

std::string_view to_string(Fusion::Kind kind) {
  switch (kind) {
    case Fusion::Kind::computation:
      return "computation";
    case Fusion::Kind::all_reduce:
      return "all_reduce";
    case Fusion::Kind::reduce_scatter:
      return "reduce_scatter";
    case Fusion::Kind::all_gather:
      return "all_gather";
    case Fusion::Kind::reduce:
      return "reduce";
    case Fusion::Kind::broadcast:
      return "broadcast";
    case Fusion::Kind::send:
      return "send";
  }
  return "";
}

ValueId Graph::find(std::string_view wanted) const {
  for (ValueId id = 0; id < size(); ++id) {
    if (at(id).name == wanted) return id;
  }
  return -1;
}

ValueId Graph::require(std::string_view wanted) const {
  const ValueId id = find(wanted);
  if (id >= 0) return id;
  std::vector<std::string> known;
  for (const Node& node : nodes) known.push_back(node.name);
  const std::string near = nearest(wanted, known);
  throw ProgramError(fmt::format("program '{}' has no value '{}'{}", name, wanted,
                                 (near.empty() ? "" : "; did you mean '" + near + "'?")));
}

ValueId Graph::update_of(ValueId state) const {
  for (ValueId id = 0; id < size(); ++id) {
    if (at(id).op == Op::update && at(id).operands.front() == state) return id;
  }
  return -1;
}

Indexed<std::vector<ValueId>> Graph::users() const {
  std::vector<std::vector<ValueId>> result(nodes.size());
  for (ValueId id = 0; id < size(); ++id) {
    for (const ValueId operand : at(id).operands) {
      auto& list = result[operand];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return result;
}

const Fusion* Graph::fusion_of(ValueId id) const {
  for (const Fusion& fusion : fusions) {
    if (std::binary_search(fusion.members.begin(), fusion.members.end(), id)) return &fusion;
  }
  return nullptr;
}

bool Graph::name_free(std::string_view wanted) const {
  return find(wanted) < 0 &&
         std::none_of(outputs.begin(), outputs.end(), [&](const Output& output) {
           return output.name == wanted && at(output.value).name != wanted;
         });
}

namespace {

std::string automatic_name(const Graph& graph, const Node& node) {
  if (node.op == Op::update && !node.operands.empty()) {
    const std::string wanted = graph.at(node.operands.front()).name + ".new";
    if (graph.name_free(wanted)) return wanted;
  }
  const std::string stem(node.op == Op::reduction ? to_string(node.attributes.reduction)
                                                  : to_string(node.op));
  int number = graph.size();
  while (!graph.name_free(fmt::format("{}_{}", stem, number))) ++number;
  return fmt::format("{}_{}", stem, number);
}

void infer(const Graph& graph, Node& node) {
  switch (node.op) {
#define COCONET_STRUCTURAL(name, ...) \
  case Op::name:                      \
    infer_##name(graph, node);        \
    break;
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
    default:
      infer_pointwise(graph, node);
      break;
  }
}

}  // namespace

ValueId append(Graph& graph, Node node) {
  if (node.name.empty()) {
    node.name = automatic_name(graph, node);
    node.user_named = false;
  } else if (!graph.name_free(node.name)) {
    fail(graph, node, "the name is taken; every value needs a name of its own");
  }
  if (static_cast<int>(node.operands.size()) != arity(node.op)) {
    fail(graph, node,
         fmt::format("has {}; it takes {}", counted(node.operands.size(), "operand"),
                     arity(node.op)));
  }
  for (const ValueId id : node.operands) {
    if (id < 0 || id >= graph.size())
      throw InternalError("operand out of order in '" + node.name + "'");
  }
  infer(graph, node);
  graph.nodes.push_back(std::move(node));
  return graph.size() - 1;
}

void verify(const Graph& graph) {
  Graph copy;
  copy.name = graph.name;
  copy.mesh = graph.mesh;
  copy.dims = graph.dims;
  for (const Node& node : graph.nodes) {
    const Node& checked = copy.at(append(copy, node));
    if (checked.dtype != node.dtype || checked.shape != node.shape ||
        checked.layout != node.layout || checked.weak != node.weak) {
      throw InternalError("'" + node.name + "' is recorded as " +
                          describe(graph, graph.find(node.name)) + " but its operands make it " +
                          describe(copy, copy.size() - 1));
    }
  }
}

}  // namespace coconet::ir
