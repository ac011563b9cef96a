// The typing rule of reshape: a tensor's elements, in their order, in other dimensions.
#include <fmt/format.h>

#include "ir/factors.h"
#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_reshape(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  const Shape to = node.attributes.shape;
  if (from.weak || from.attributes.scattered) {
    fail(graph, node,
         operand_text(graph, from) + "; it takes a tensor that is not scattered over buffers");
  }
  for (const Dim& dim : to) require_known(graph, node, dim);
  const std::optional<Factors> factors = factors_of_reshape(from.shape, to);
  if (!factors) {
    fail(graph, node,
         fmt::format("has the shape {}, but {}; it has the same elements in their order, and "
                     "dimensions that the program does not state stay as they are",
                     to_string(to), operand_text(graph, from)));
  }
  for (const Placement& placement : from.layout) {
    if (placement.kind != Placement::Kind::sliced ||
        (*factors)[static_cast<std::size_t>(placement.dim)].kind == Factor::Kind::passes)
      continue;
    fail(graph, node,
         fmt::format("{}, and dimension {} does not stay as it is: all_gather it first",
                     operand_text(graph, from), placement.dim));
  }
  take_type(node, from);
  node.shape = to;
  combine_layouts(graph, node);
}

void adjoint_reshape(Adjoint& at) {
  const bool is_same = is_number(at.gradient());
  at.give(0, is_same ? at.gradient() : reshape(at.whole(), at.operand(0).shape()));
}

}  // namespace coconet::ir
