// The typing rule of as_local: what all ranks of a mesh axis hold, as a value of each rank's own.
#include <fmt/format.h>

#include <iterator>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_as_local(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) fail(graph, node, operand_text(graph, from) + "; it takes a tensor");
  const int axis = node.attributes.axis;
  if (axis < 0 || axis >= std::ssize(graph.mesh.axes()))
    fail(graph, node, fmt::format("works along axis {} of {}", axis, graph.mesh.str()));
  const Placement have = from.layout[axis];
  if (have != replicated) {
    fail(graph, node,
         "along axis '" + graph.mesh.axes()[axis].name + "' " + operand_text(graph, from) +
             (have == local ? ": it is local already; drop the as_local"
                            : ": every rank has another slice; all_gather it first"));
  }
  take_type(node, from);
  node.layout[axis] = local;
}

void adjoint_as_local(Adjoint& at) {
  at.give(0, at.gradient());
}

}  // namespace coconet::ir
