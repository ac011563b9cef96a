// Runs a program step by step: evaluates every value in order, then lets the updates take effect.
#include "ir/reference/reference.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/reference/evaluate.h"

namespace coconet::ir {

namespace {

RankData evaluate(const ReferenceStep& step, ValueId id) {
  const Op op = step.graph.at(id).op;
  if (draws_random(op)) return evaluate_random(step, id);
  if (op == Op::iota) return evaluate_iota(step, id);
  if (op == Op::reshape) return evaluate_reshape(step, id);
  if (op == Op::take) return evaluate_take(step, id);
  if (op == Op::pad) return evaluate_pad(step, id);
  if (op == Op::repeat) return evaluate_repeat(step, id);
  if (is_elementwise(op) || op == Op::update) return evaluate_elementwise(step, id);
  if (is_collective(op)) return evaluate_collective(step, id);
  if (op == Op::matmul || op == Op::contract) return evaluate_matmul(step, id);
  if (op == Op::reduction) return evaluate_reduction(step, id);
  throw InternalError(fmt::format("reference: there is no meaning for the op {}", to_string(op)));
}

// For each value the last one that reads it, after which its memory may go; size() for those that
// are kept.
Indexed<ValueId> last_readers(const Graph& graph) {
  Indexed<ValueId> last(graph.nodes().size(), -1);
  for (ValueId id = 0; id < graph.size(); ++id) {
    for (const ValueId operand : graph.at(id).operands) last[operand] = id;
  }
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op == Op::update) last[id] = graph.size();
  }
  for (const Output& output : graph.outputs()) last[output.value] = graph.size();
  return last;
}

}  // namespace

Reference::Reference(const Graph& graph, const Sizes& sizes, const Lists& lists)
    : graph_(graph),
      sizes_(resolve_sizes(graph, sizes, lists)),
      lists_(resolve_lists(graph, sizes_, lists)) {
  for (ValueId id = 0; id < graph_.size(); ++id) {
    if (graph_.at(id).op == Op::state) tensors_[graph_.at(id).name] = zeros(id);
  }
}

RankData Reference::zeros(ValueId id) const {
  RankData parts;
  for (int rank = 0; rank < graph_.mesh.size(); ++rank) {
    parts.emplace_back(static_cast<std::size_t>(part(id, rank).count()), 0.0);
  }
  return parts;
}

Part Reference::part(ValueId id, int rank) const {
  return part_of(graph_, id, sizes_, rank);
}

void Reference::set(const std::string& name, RankData parts) {
  const ValueId id = graph_.require(name);
  const Node& node = graph_.at(id);
  if (!states_type(node.op)) {
    throw ProgramError("'" + name + "' of program '" + graph_.name +
                       "' is computed; only inputs and states are set");
  }
  if (parts.size() != static_cast<std::size_t>(graph_.mesh.size())) {
    throw ProgramError(fmt::format("'{}' was given {} parts; the mesh {} has {} ranks", name,
                                   parts.size(), graph_.mesh.str(), graph_.mesh.size()));
  }
  for (int rank = 0; rank < graph_.mesh.size(); ++rank) {
    Data& data = parts[rank];
    const std::int64_t expected = part(id, rank).count();
    if (data.size() != static_cast<std::size_t>(expected)) {
      throw ProgramError(fmt::format("'{}' was given {} elements on rank {}; that rank holds {}",
                                     name, data.size(), rank, expected));
    }
    for (double& element : data) element = round_to(node.dtype, element);
  }
  tensors_[name] = std::move(parts);
}

void Reference::run(const std::map<std::string, double>& scalars) {
  for (const Node& node : graph_.nodes()) {
    if (node.op == Op::input && !tensors_.contains(node.name)) {
      throw ProgramError("program '" + graph_.name + "' needs the input '" + node.name +
                         "', which was not set");
    }
  }
  const Indexed<ValueId> last_reader = last_readers(graph_);
  Indexed<RankData> computed(graph_.nodes().size());
  ReferenceStep step{graph_, sizes_, lists_,
                     Indexed<const RankData*>(graph_.nodes().size(), nullptr)};
  for (ValueId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.at(id);
    if (states_type(node.op)) {
      step.values[id] = &tensors_.at(node.name);
      continue;
    }
    if (node.weak) {
      const double number = evaluate_weak(graph_, id, scalars, sizes_);
      computed[id].assign(static_cast<std::size_t>(graph_.mesh.size()), Data{number});
    } else {
      computed[id] = evaluate(step, id);
    }
    step.values[id] = &computed[id];
    for (const ValueId operand : node.operands) {
      if (last_reader[operand] == id) RankData().swap(computed[operand]);
    }
  }
  for (const Output& output : graph_.outputs()) {
    tensors_[output.name] = *step.values[output.value];
  }
  for (ValueId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.at(id);
    if (node.op != Op::update) continue;
    tensors_[graph_.at(node.operands[0]).name] = std::move(computed[id]);
  }
}

const RankData& Reference::get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> known;
  for (const Node& node : graph_.nodes()) {
    if (node.op == Op::state) known.push_back(node.name);
  }
  for (const Output& output : graph_.outputs()) known.push_back(output.name);
  if (std::ranges::find(known, name) != known.end()) {
    throw ProgramError("output '" + name + "' of program '" + graph_.name +
                       "' has no value before the first step");
  }
  throw ProgramError("program '" + graph_.name + "' has no state or output '" + name + "'" +
                     suggestion(name, known));
}

}  // namespace coconet::ir
