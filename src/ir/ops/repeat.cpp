// The typing rule of repeat: what a tensor has for each buffer of a dimension, for each element.
#include "ir/gradients/adjoint.h"
#include "ir/lists.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_repeat(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  const Dim& dim = node.attributes.extent;
  if (!dim.symbolic() || !counted_by(dim).empty())
    fail(graph, node, "repeats over " + dim.str() + "; it takes a dimension of Program::dim");
  if (from.weak || from.shape != Shape{buffers_of(dim)}) {
    fail(graph, node,
         operand_text(graph, from) + "; it takes a tensor of " + to_string(Shape{buffers_of(dim)}) +
             ", which has an element for each buffer of '" + dim.name + "'");
  }
  for (const Placement& placement : from.layout) {
    if (placement.kind != Placement::Kind::sliced) continue;
    fail(graph, node,
         operand_text(graph, from) +
             ", but elements of any buffer may be on any rank; all_gather it first");
  }
  take_type(node, from);
  node.shape = {dim};
}

void adjoint_repeat(Adjoint& at) {
  at.give(0, sum(at.whole(), per_buffer));
}

}  // namespace coconet::ir
