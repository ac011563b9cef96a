// The typing rule of slice: each rank's block of a tensor that all ranks of a mesh axis hold.
#include <fmt/format.h>

#include <iterator>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_slice(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) fail(graph, node, operand_text(graph, from) + "; it takes a tensor");
  const int axis = node.attributes.axis;
  if (axis < 0 || axis >= std::ssize(graph.mesh.axes())) {
    fail(graph, node, fmt::format("works along axis {} of {}", axis, graph.mesh.str()));
  }
  const Placement have = from.layout[axis];
  if (have.kind != Placement::Kind::replicated) {
    fail(graph, node,
         "along axis '" + graph.mesh.axes()[axis].name + "' " + operand_text(graph, from) +
             (have.kind == Placement::Kind::local
                  ? ": every rank has values of its own; reduce_scatter makes slices of their "
                    "reduction"
                  : ": it is sliced already; drop the slice"));
  }
  const int dim = node.attributes.dim;
  require_sliceable(graph, node, from, dim);
  take_type(node, from);
  node.layout[axis] = sliced(dim);
}

void adjoint_slice(Adjoint& at) {
  at.give(0, at.gradient());
}

}  // namespace coconet::ir
