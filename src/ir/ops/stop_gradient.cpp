// The typing rule of stop_gradient: its operand, which the gradient of nothing depends on.
#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_stop_gradient(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak)
    fail(graph, node, operand_text(graph, from) + "; it takes a tensor: numbers have no gradient");
  take_type(node, from);
}

void adjoint_stop_gradient(Adjoint& /*at*/) {}

}  // namespace coconet::ir
