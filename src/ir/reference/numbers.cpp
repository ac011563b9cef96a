// Numbers of a program: constants, scalars, extents and the arithmetic among them, in double and
// never rounded.
#include "coconet/error.h"
#include "ir/reference/reference.h"

namespace coconet::ir {

namespace {

double scalar_value(const Graph& graph, const Node& node,
                    const std::map<std::string, double>& scalars) {
  const auto found = scalars.find(node.name);
  if (found == scalars.end()) {
    throw ProgramError("program '" + graph.name + "' needs the scalar '" + node.name +
                       "', which was not given");
  }
  return found->second;
}

}  // namespace

double evaluate_weak(const Graph& graph, ValueId id, const std::map<std::string, double>& scalars,
                     const Sizes& sizes) {
  // Only what `id` depends on is computed, so that other scalars may be missing.
  std::vector<bool> needed(graph.nodes().size(), false);
  needed.at(id) = true;
  for (ValueId i = id; i >= 0; --i) {
    if (!needed[i]) continue;
    for (const ValueId operand : graph.at(i).operands) needed[operand] = true;
  }
  std::vector<double> values(graph.nodes().size(), 0);
  for (ValueId i = 0; i <= id; ++i) {
    if (!needed[i]) continue;
    const Node& node = graph.at(i);
    double& value = values[i];
    if (!node.weak)
      throw InternalError("'" + node.name + "' is a tensor and has no value as a number");
    if (node.op == Op::constant) {
      value = node.attributes.number;
    } else if (node.op == Op::scalar) {
      value = scalar_value(graph, node, scalars);
    } else if (node.op == Op::extent) {
      value = static_cast<double>(extent_of(node.attributes.extent, sizes));
    } else {
      double operands[3] = {0, 0, 0};
      for (std::size_t k = 0; k < node.operands.size(); ++k) {
        operands[k] = values[node.operands[k]];
      }
      value = find_pointwise(node.op)->reference(operands[0], operands[1], operands[2]);
    }
  }
  return values[id];
}

}  // namespace coconet::ir
