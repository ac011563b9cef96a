// The typing rule of update: the write of a state.
#include <fmt/format.h>

#include "ir/factors.h"
#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_update(const Graph& graph, Node& node) {
  const Node& state = operand(graph, node, 0);
  const Node& value = operand(graph, node, 1);
  if (state.op != Op::state) {
    fail(graph, node,
         fmt::format("'{}' is no state but {}; only what Program::state made can be updated",
                     state.name, to_string(state.op)));
  }
  const ValueId other = graph.update_of(node.operands.front());
  if (other >= 0) {
    fail(graph, node,
         "state '" + state.name + "' is updated already, by '" + graph.at(other).name +
             "'; a step updates a state once");
  }
  const auto both = [&] {
    return operand_text(graph, state) + " and " + operand_text(graph, value);
  };
  take_type(node, state);
  if (value.weak) {
    if (!number_fits(value, state.dtype))
      fail(graph, node, both() + "; write a tensor of the state's dtype");
    return;
  }
  if (value.dtype != state.dtype)
    fail(graph, node, "the dtypes differ: " + both() + "; cast the value");
  if (broadcast_shapes(graph, node) != state.shape) {
    fail(graph, node, "the value is larger than the state: " + both());
  }
  for (std::size_t axis = 0; axis < state.layout.size(); ++axis) {
    Placement from = value.layout[axis];
    if (from.kind == Placement::Kind::sliced) {
      const Factor factor = factors_of(graph, node, 1)[static_cast<std::size_t>(from.dim)];
      from.dim = factor.of_result;
      if (factor.kind != Factor::Kind::passes) {
        fail(graph, node,
             both() +
                 "; the value's sliced dimension has extent 1 and is broadcast: all_gather it "
                 "first");
      }
    }
    const Placement to = state.layout[axis];
    const bool kept = from == to || (from.kind == Placement::Kind::replicated);
    if (kept || (to.kind == Placement::Kind::local && from.kind == Placement::Kind::local))
      continue;
    const std::string along = "along axis '" + graph.mesh.axes()[axis].name + "' " + both();
    if (from.kind == Placement::Kind::sliced) {
      fail(graph, node, along + "; all_gather the value, or keep the state sliced alike");
    }
    fail(graph, node,
         along + "; every rank would write values of its own: all_reduce the value first");
  }
  require_nesting(graph, node);
}

void adjoint_update(Adjoint& at) {
  at.give_broadcast(1, at.gradient());
}

}  // namespace coconet::ir
