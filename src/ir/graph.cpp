// The graph's own operations: look-ups, appending a checked node, re-checking a whole graph.
#include "ir/graph.h"

#include <fmt/format.h>

#include <bit>

#include "coconet/error.h"
#include "ir/collective_halves.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

std::string_view to_string(Fusion::Kind kind) {
  constexpr std::string_view names[] = {
      "computation", "all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "send"};
  return names[static_cast<std::size_t>(kind)];
}

ValueId Graph::find(std::string_view wanted) const {
  const auto found = id_of_name_.find(wanted);
  return found == id_of_name_.end() ? -1 : found->second;
}

ValueId Graph::find_output(std::string_view wanted) const {
  const auto found = id_of_output_.find(wanted);
  return found == id_of_output_.end() ? -1 : found->second;
}

ValueId Graph::require(std::string_view wanted) const {
  const ValueId id = find(wanted);
  if (id >= 0) return id;
  std::vector<std::string> known;
  for (const Node& node : nodes_) known.push_back(node.name);
  throw ProgramError(
      fmt::format("program '{}' has no value '{}'{}", name, wanted, suggestion(wanted, known)));
}

ValueId Graph::find_constant(double number) const {
  const auto found = constants_.find(std::bit_cast<std::uint64_t>(number));
  return found == constants_.end() ? -1 : found->second;
}

const Fusion* Graph::fusion_of(ValueId id) const {
  const int number = fusion_of_[id];
  return number < 0 ? nullptr : &fusions_[static_cast<std::size_t>(number)];
}

bool Graph::name_free(std::string_view wanted) const {
  if (id_of_name_.contains(wanted)) return false;
  const ValueId output = find_output(wanted);
  return output < 0 || at(output).name == wanted;
}

void Graph::reserve(std::size_t values) {
  nodes_.reserve(values);
  id_of_name_.reserve(values);
  users_.reserve(values);
  update_of_.reserve(values);
  fusion_of_.reserve(values);
  arrives_.reserve(values);
  is_output_.reserve(values);
}

void Graph::rename(ValueId id, std::string to) {
  id_of_name_.erase(at(id).name);
  id_of_name_.emplace(to, id);
  nodes_.at(id).name = std::move(to);
}

void Graph::drop_from(ValueId first) {
  while (size() > first) {
    const Node& node = nodes_.back();
    const ValueId id = size() - 1;
    id_of_name_.erase(node.name);
    if (find_constant(node.attributes.number) == id)
      constants_.erase(std::bit_cast<std::uint64_t>(node.attributes.number));
    for (const ValueId operand : node.operands) {
      if (!users_[operand].empty() && users_[operand].back() == id) users_[operand].pop_back();
      if (update_of_[operand] == id) update_of_[operand] = -1;
    }
    nodes_.pop_back();
    users_.pop_back();
    update_of_.pop_back();
    fusion_of_.pop_back();
    arrives_.pop_back();
    is_output_.pop_back();
  }
}

void Graph::add_output(Output output) {
  id_of_output_.try_emplace(output.name, output.value);
  is_output_[output.value] = 1;
  outputs_.push_back(std::move(output));
}

void Graph::add_fusion(Fusion fusion) {
  index(fusion, static_cast<int>(fusions_.size()));
  fusions_.push_back(std::move(fusion));
}

void Graph::set_fusions(std::vector<Fusion> fusions) {
  fusion_of_.assign(nodes_.size(), -1);
  arrives_.assign(nodes_.size(), 0);
  fusions_ = std::move(fusions);
  int number = 0;
  for (Fusion& fusion : fusions_) index(fusion, number++);
}

void Graph::index(Fusion& fusion, int number) {
  fusion.kind = halves_of(*this, fusion.members).kind;
  for (const ValueId member : fusion.members) {
    if (fusion_of_[member] < 0) fusion_of_[member] = number;
  }
  for (const ValueId value : fusion.arriving) arrives_[value] = 1;
}

void Graph::add(Node node) {
  const ValueId id = size();
  id_of_name_.emplace(node.name, id);
  if (node.op == Op::constant)
    constants_.try_emplace(std::bit_cast<std::uint64_t>(node.attributes.number), id);
  for (const ValueId operand : node.operands) {
    std::vector<ValueId>& readers = users_[operand];
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
  users_.emplace_back();
  update_of_.push_back(-1);
  if (node.op == Op::update && update_of_[node.operands.front()] < 0)
    update_of_[node.operands.front()] = id;
  fusion_of_.push_back(-1);
  arrives_.push_back(0);
  is_output_.push_back(0);
  nodes_.push_back(std::move(node));
}

std::string scope_of(const Node& node) {
  return node.name.substr(0, node.name.rfind('.') + 1);
}

namespace {

std::string automatic_name(const Graph& graph, const Node& node) {
  if (node.op == Op::update && !node.operands.empty()) {
    const std::string wanted = graph.at(node.operands.front()).name + ".new";
    if (graph.name_free(wanted)) return wanted;
  }
  // Constants are of no scope: any may read the one that there is.
  const std::string stem = fmt::format(
      "{}{}", node.op == Op::constant ? "" : graph.scope,
      node.op == Op::reduction ? to_string(node.attributes.reduction) : to_string(node.op));
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
  graph.add(std::move(node));
  return graph.size() - 1;
}

ValueId constant_of(Graph& graph, double number) {
  if (const ValueId id = graph.find_constant(number); id >= 0) return id;
  return append(graph, {.op = Op::constant, .attributes = {.number = number}});
}

void verify(const Graph& graph) {
  Graph copy;
  copy.name = graph.name;
  copy.mesh = graph.mesh;
  copy.dims = graph.dims;
  for (const Node& node : graph.nodes()) {
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
