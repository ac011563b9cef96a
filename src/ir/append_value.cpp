#include "ir/append_value.h"

#include <utility>

#include "ir/access.h"

namespace coconet::ir {

namespace {

ValueId constant_id(Graph& graph, double number) {
  if (const ValueId id = graph.find_constant(number); id >= 0) return id;
  Node node;
  node.op = Op::constant;
  node.attributes.number = number;
  return append(graph, std::move(node));
}

}  // namespace

Value append_value(const std::shared_ptr<Graph>& graph, Op op, const std::vector<Value>& operands,
                   Node node) {
  node.op = op;
  for (const Value& value : operands) {
    node.operands.push_back(graph_of(value) ? id_of(value) : constant_id(*graph, value.constant()));
  }
  return value_of(graph, append(*graph, std::move(node)));
}

}  // namespace coconet::ir
