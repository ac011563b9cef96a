// The typing rule of in_range: its operand, integers that are indices of a dimension.
#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_in_range(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak || (from.dtype != DType::i32 && from.dtype != DType::i64))
    fail(graph, node, operand_text(graph, from) + "; it takes a tensor of i32 or i64");
  require_known(graph, node, node.attributes.extent);
  take_type(node, from);
}

void adjoint_in_range(Adjoint& /*at*/) {}

}  // namespace coconet::ir
