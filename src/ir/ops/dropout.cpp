// The typing rule of dropout.
#include "ir/dropout.h"

#include <fmt/format.h>

#include <string>

#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_dropout(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) fail(graph, node, operand_text(graph, from) + "; dropout takes a tensor");
  if (!is_float(from.dtype)) {
    fail(graph, node, operand_text(graph, from) + "; dropout takes floats: cast it first");
  }
  const double probability = node.attributes.probability;
  if (!(probability >= 0 && probability < 1)) {  // NaN is neither
    fail(graph, node,
         fmt::format("drops with probability {:f}; it must be at least 0 and less than 1",
                     probability));
  }
  const Node& offset = operand(graph, node, 1);
  if (!offset.weak) {
    fail(graph, node,
         operand_text(graph, offset) +
             "; the offset must be a number: a constant, or a scalar such as the number of the "
             "step");
  }
  if (offset.op == Op::constant && !is_dropout_offset(offset.attributes.number))
    fail(graph, node, dropout_offset_error(graph, node, offset.attributes.number));
  node.weak = false;
  node.dtype = from.dtype;
  node.shape = from.shape;
  node.layout = from.layout;
}

}  // namespace coconet::ir
