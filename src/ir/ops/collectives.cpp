// Typing rules of the collectives along one mesh axis.
#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

#include <fmt/format.h>

namespace coconet::ir {

namespace {

std::string axis_name(const Graph& graph, const Node& node) {
  return graph.mesh.axes()[node.attributes.axis].name;
}

/// "along axis 'gpu' 'g' is f32[n] local"
std::string along(const Graph& graph, const Node& node, const Node& from) {
  return "along axis '" + axis_name(graph, node) + "' " + operand_text(graph, from);
}

/// Checks what all collectives share and copies the operand's type; the caller then sets the axis'
/// placement.
const Node& start(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak)
    fail(graph, node, operand_text(graph, from) + ", the same on every rank; it takes a tensor");
  if (node.attributes.axis < 0 ||
      node.attributes.axis >= static_cast<int>(graph.mesh.axes().size())) {
    fail(graph, node,
         fmt::format("works along axis {} of {}", node.attributes.axis, graph.mesh.str()));
  }
  take_type(node, from);
  return from;
}

Placement& placement(Node& node) {
  return node.layout[node.attributes.axis];
}

void require_local(const Graph& graph, Node& node, const Node& from) {
  const Placement have = placement(node);
  if (have.kind == Placement::Kind::local) return;
  fail(graph, node,
       along(graph, node, from) +
           (have.kind == Placement::Kind::replicated
                ? ": every rank has the same values already; drop this op, or make the operand "
                  "local"
                : ": every rank has another slice, so there is nothing to combine; all_gather it, "
                  "or reduce over the sliced dimension"));
}

void require_reducible(const Graph& graph, const Node& node, const Node& from) {
  if (from.dtype == DType::boolean) {
    fail(graph, node, operand_text(graph, from) + "; cast it to an integer or float dtype first");
  }
  if (node.attributes.reduction == Reduction::mean && !is_float(from.dtype)) {
    fail(graph, node, operand_text(graph, from) + "; mean takes floats: cast it, or use sum");
  }
}

void require_root(const Graph& graph, const Node& node) {
  const int size = graph.mesh.axes()[node.attributes.axis].size;
  if (node.attributes.root < 0 || node.attributes.root >= size) {
    fail(graph, node,
         fmt::format("has root {}; axis '{}' has ranks 0 to {}", node.attributes.root,
                     axis_name(graph, node), size - 1));
  }
}

/// Fails unless the groups along the axis have values of their own, which it makes sense to send.
void require_own_values(const Graph& graph, Node& node, const Node& from) {
  const Placement have = placement(node);
  if (have.kind == Placement::Kind::local) return;
  const bool same = have.kind == Placement::Kind::replicated;
  fail(graph, node,
       along(graph, node, from) +
           (same ? ": every group has the same values already; drop this op, or make the operand "
                   "local"
                 : ": another group needs another slice; all_gather it, or send along an axis on "
                   "which it is local"));
}

/// Fails unless the operand is sliced along the axis; `instead` says what to do of a whole one.
void require_sliced(const Graph& graph, Node& node, const Node& from, const std::string& instead) {
  const Placement have = placement(node);
  if (have.kind == Placement::Kind::sliced) return;
  fail(graph, node,
       along(graph, node, from) +
           (have.kind == Placement::Kind::local
                ? ": it takes a sliced value; reduce_scatter makes one of a local one"
                : ": every rank has the whole already; " + instead));
}

/// Fails unless some position of the axis is `offset` behind another.
void require_reached(const Graph& graph, const Node& node) {
  const int size = graph.mesh.axes()[node.attributes.axis].size;
  const int offset = node.attributes.offset;
  if (offset != 0 && offset < size && offset > -size) return;
  const std::string axis = "axis '" + axis_name(graph, node) + "'";
  const std::string most = std::to_string(size - 1);
  const std::string legal =
      size == 1 ? axis + " has one group: drop this op, or give the axis more"
                : fmt::format("{} has {} groups, so offsets are {}", axis, size,
                              (size == 2 ? "1 and -1" : "1 to " + most + " and -1 to -" + most));
  fail(graph, node,
       (offset == 0 ? "has offset 0, which sends each group's values to itself; "
                    : fmt::format("sends past the {} group with offset {}; ",
                                  offset > 0 ? "last" : "first", offset)) +
           legal);
}

}  // namespace

void infer_all_reduce(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_local(graph, node, from);
  require_reducible(graph, node, from);
  placement(node) = replicated;
}

void infer_reduce_scatter(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_local(graph, node, from);
  require_reducible(graph, node, from);
  const int dim = node.attributes.dim;
  require_sliceable(graph, node, from, dim);
  placement(node) = sliced(dim);
}

void infer_all_gather(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_sliced(graph, node, from, "drop the all_gather");
  require_gatherable(graph, node, from, placement(node).dim);
  placement(node) = replicated;
}

void infer_reduce(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_local(graph, node, from);
  require_reducible(graph, node, from);
  require_root(graph, node);
}

void infer_broadcast(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_local(graph, node, from);
  require_root(graph, node);
  placement(node) = replicated;
}

void infer_all_to_all(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_sliced(graph, node, from, "slice takes a rank's block of it");
  const Placement have = placement(node);
  const int dim = node.attributes.dim;
  if (have.dim == dim) {
    fail(graph, node,
         fmt::format("{}: it is sliced along dimension {} already; drop the all_to_all, or name "
                     "another dimension",
                     along(graph, node, from), dim));
  }
  require_gatherable(graph, node, from, have.dim);
  require_sliceable(graph, node, from, dim);
  placement(node) = sliced(dim);
}

void infer_send(const Graph& graph, Node& node) {
  const Node& from = start(graph, node);
  require_own_values(graph, node, from);
  require_reached(graph, node);
}

namespace {

/// `gradient` of a reduction over ranks as that of what each of them gave to it.
Value of_each(const Adjoint& at, const Value& gradient) {
  const Reduction reduction = at.node().attributes.reduction;
  if (reduction == Reduction::sum) return gradient;
  if (reduction == Reduction::mean) return gradient * (1.0 / at.ranks());
  at.refuse(fmt::format(
      "which ranks attain a {} over them is not known; where the result must not matter, as the "
      "maximum that a softmax subtracts, write stop_gradient of its operand, else all_gather the "
      "values of a dimension of their own",
      to_string(reduction)));
}

}  // namespace

void adjoint_all_reduce(Adjoint& at) {
  at.give(0, of_each(at, at.gradient()));
}

void adjoint_reduce_scatter(Adjoint& at) {
  const Value of_slice = of_each(at, at.gradient());
  at.give(0, at.is_sliced(of_slice) ? all_gather(of_slice, at.axis()) : of_slice);
}

// The walk hands it the gradient of the slices.
void adjoint_all_gather(Adjoint& at) {
  at.give(0, at.gradient());
}

void adjoint_reduce(Adjoint& at) {
  at.refuse("only the root has its result; use all_reduce");
}

void adjoint_broadcast(Adjoint& at) {
  at.refuse(
      "only the root's operand matters; make that replicated, or an all_reduce of what is 0 on all "
      "other ranks");
}

void adjoint_all_to_all(Adjoint& at) {
  const Value& gradient = at.gradient();
  if (is_number(gradient)) return at.give(0, gradient);
  const int dim = at.operand(0).layout()[at.node().attributes.axis].dim;
  at.give(0, all_to_all(at.whole(), dim, at.axis()));
}

void adjoint_send(Adjoint& at) {
  at.give(0, send(at.whole_and_own(), -at.node().attributes.offset, at.axis()));
}

}  // namespace coconet::ir
