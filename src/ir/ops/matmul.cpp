// The typing rule of matmul: batched, [.., M, K] x [.., K, N], with batch dimensions that
// broadcast.
#include "ir/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

/// The placement of `from` along an axis as one of the result: sliced dimensions are the result's.
/// A slice of the contracted dimension has none.
struct Role {
  Placement placement;
  bool contracted = false;
};

Role role_of(const Node& from, const MatmulDims& dims, Placement placement, int result_rank,
             bool left) {
  if (placement.kind != Placement::Kind::sliced) return {placement};
  if (placement.dim == dims.contracted) return {placement, true};
  if (placement.dim == dims.kept) return {sliced(result_rank - (left ? 2 : 1))};
  return {sliced(placement.dim + result_rank - static_cast<int>(from.shape.size()))};
}

Shape result_shape(const Graph& graph, const Node& node) {
  const Node& a = operand(graph, node, 0);
  const Node& b = operand(graph, node, 1);
  const auto both = [&] { return operand_text(graph, a) + " and " + operand_text(graph, b); };
  const MatmulDims of_a = matmul_dims(graph, node, 0);
  const MatmulDims of_b = matmul_dims(graph, node, 1);
  const auto at = [](const Node& from, int dim) { return from.shape[dim]; };
  if (!(at(a, of_a.contracted) == at(b, of_b.contracted))) {
    fail(graph, node,
         fmt::format("{}; the contracted dimensions {} of '{}' and {} of '{}' must be the same, "
                     "but are {} and {}",
                     both(), of_a.contracted, a.name, of_b.contracted, b.name,
                     at(a, of_a.contracted).str(), at(b, of_b.contracted).str()));
  }
  Shape shape(std::max(a.shape.size(), b.shape.size()), Dim(1));
  for (const Node* from : {&a, &b}) {
    const std::size_t shift = shape.size() - from->shape.size();
    for (std::size_t d = 0; d + 2 < from->shape.size(); ++d) {
      Dim& have = shape[d + shift];
      if (have == Dim(1)) {
        have = from->shape[d];
      } else if (!(from->shape[d] == have) && !(from->shape[d] == Dim(1))) {
        fail(graph, node,
             both() +
                 "; their batch dimensions, all but the last two, do not broadcast: counted from "
                 "the right they must be the same or 1");
      }
    }
  }
  shape[shape.size() - 2] = at(a, of_a.kept);
  shape[shape.size() - 1] = at(b, of_b.kept);
  return shape;
}

/// Fails where a batch dimension is sliced that the result repeats.
void require_no_repeated_slice(const Graph& graph, const Node& node, const Node& from,
                               Placement placement) {
  if (placement.kind != Placement::Kind::sliced) return;
  const int own = placement.dim;
  const std::size_t shift = node.shape.size() - from.shape.size();
  if (own + 2 < std::ssize(from.shape) && from.shape[own] == Dim(1) &&
      !(node.shape[own + shift] == Dim(1))) {
    fail(graph, node,
         operand_text(graph, from) +
             ", but its sliced dimension has extent 1 and is broadcast; all_gather it first");
  }
}

Placement combine(const Graph& graph, const Node& node, std::size_t axis) {
  const Node& a = operand(graph, node, 0);
  const Node& b = operand(graph, node, 1);
  const int rank = static_cast<int>(node.shape.size());
  const Role left = role_of(a, matmul_dims(graph, node, 0), a.layout[axis], rank, true);
  const Role right = role_of(b, matmul_dims(graph, node, 1), b.layout[axis], rank, false);
  const std::string along = "along axis '" + graph.mesh.axes()[axis].name + "' " +
                            operand_text(graph, a) + " and " + operand_text(graph, b);
  if (left.contracted != right.contracted) {
    const Node& whole = left.contracted ? b : a;
    fail(graph, node,
         along + "; the contracted dimension must be sliced on both sides or on none: slice '" +
             whole.name + "' alike, or all_gather '" + (left.contracted ? a : b).name + "'");
  }
  if (left.contracted) return local;  // every rank has the products of its slices, to be summed
  if (left.placement == right.placement || right.placement == replicated) return left.placement;
  if (left.placement == replicated) return right.placement;
  if (left.placement == local || right.placement == local) {
    fail(graph, node,
         along +
             "; values of each rank's own and slices of one tensor do not combine: reduce_scatter "
             "the local operand or all_gather the sliced one");
  }
  fail(graph, node,
       along +
           "; every rank would get a block of the result that is a slice of two dimensions: "
           "all_gather one of the operands");
}

/// Fails where an operand is sliced along an axis so that its part lacks some of the result's,
/// because the result's dimension is sliced along an earlier axis as well and the operand is not.
void require_nesting_of_batch(const Graph& graph, const Node& node, std::size_t index) {
  const Node& from = operand(graph, node, index);
  const int shift = static_cast<int>(node.shape.size() - from.shape.size());
  for (std::size_t axis = 0; axis < from.layout.size(); ++axis) {
    const Placement inner = from.layout[axis];
    const bool batch = inner.kind == Placement::Kind::sliced &&
                       inner.dim + 2 < static_cast<int>(from.shape.size());
    for (std::size_t outer = 0; batch && outer < axis; ++outer) {
      if (node.layout[outer] != sliced(inner.dim + shift) || from.layout[outer] == inner) continue;
      fail(graph, node,
           fmt::format("{}, but the result's dimension {} is sliced along axis '{}' first; slice "
                       "the operand along '{}' too, or all_gather it along '{}'",
                       operand_text(graph, from), inner.dim + shift, graph.mesh.axes()[outer].name,
                       graph.mesh.axes()[outer].name, graph.mesh.axes()[axis].name));
    }
  }
}

}  // namespace

MatmulDims matmul_dims(const Graph& graph, const Node& node, std::size_t index) {
  const int rank = static_cast<int>(operand(graph, node, index).shape.size());
  const bool transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  // [M, K] and [K, N]: the contracted dimension is the last of the one and the last but one of the
  // other.
  const bool contracts_last = (index == 0) != transposed;
  return {contracts_last ? rank - 1 : rank - 2, contracts_last ? rank - 2 : rank - 1};
}

void infer_matmul(const Graph& graph, Node& node) {
  const Node& a = operand(graph, node, 0);
  const Node& b = operand(graph, node, 1);
  for (const Node* from : {&a, &b}) {
    if (from->weak) fail(graph, node, operand_text(graph, *from) + "; matmul takes tensors");
    if (from->shape.size() < 2) {
      fail(graph, node,
           operand_text(graph, *from) +
               "; matmul takes tensors of at least 2 dimensions: declare it with one of extent 1");
    }
    if (!is_float(from->dtype))
      fail(graph, node, operand_text(graph, *from) + "; matmul takes floats: cast it first");
  }
  if (a.dtype != b.dtype) {
    fail(graph, node,
         "the dtypes differ: " + operand_text(graph, a) + " and " + operand_text(graph, b) +
             "; cast one of them");
  }
  node.weak = false;
  node.dtype = a.dtype;
  node.shape = result_shape(graph, node);
  Placements layout;
  for (std::size_t axis = 0; axis < graph.mesh.axes().size(); ++axis) {
    require_no_repeated_slice(graph, node, a, a.layout[axis]);
    require_no_repeated_slice(graph, node, b, b.layout[axis]);
    layout.push_back(combine(graph, node, axis));
  }
  node.layout = std::move(layout);
  require_nesting_of_batch(graph, node, 0);
  require_nesting_of_batch(graph, node, 1);
}

}  // namespace coconet::ir
