// The typing rule of matmul: batched, [.., M, K] x [.., K, N], with batch dimensions that
// broadcast.
#include <fmt/format.h>

#include <algorithm>

#include "ir/factors.h"
#include "ir/ops/product.h"

namespace coconet::ir {

namespace {

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

}  // namespace

void require_floats(const Graph& graph, const Node& node) {
  const Node& a = operand(graph, node, 0);
  const Node& b = operand(graph, node, 1);
  for (const Node* from : {&a, &b}) {
    const auto refuse = [&](std::string_view what) {
      fail(graph, node,
           fmt::format("{}; {} takes {}", operand_text(graph, *from), to_string(node.op), what));
    };
    if (from->weak) refuse("tensors");
    if (!is_float(from->dtype)) refuse("floats: cast it first");
  }
  if (a.dtype != b.dtype) {
    fail(graph, node,
         "the dtypes differ: " + operand_text(graph, a) + " and " + operand_text(graph, b) +
             "; cast one of them");
  }
}

void infer_matmul(const Graph& graph, Node& node) {
  require_floats(graph, node);
  for (const std::size_t index : {0, 1}) {
    const Node& from = operand(graph, node, index);
    if (from.shape.size() >= 2) continue;
    fail(graph, node,
         operand_text(graph, from) +
             "; matmul takes tensors of at least 2 dimensions: declare it with one of extent 1");
  }
  node.weak = false;
  node.dtype = operand(graph, node, 0).dtype;
  node.shape = result_shape(graph, node);
  combine_layouts(graph, node);
}

void require_alike(const Adjoint& at, const Value& gradient, std::size_t index) {
  const Value other = at.operand(index);
  for (std::size_t axis = 0; axis < other.layout().size(); ++axis) {
    if (gradient.layout()[axis] != local || other.layout()[axis].kind != Placement::Kind::sliced)
      continue;
    at.refuse(
        "it has each rank's share of the products, and what reads it makes something of "
        "each rank's own of that; all_reduce '" +
        at.node().name + "' first");
  }
}

void adjoint_matmul(Adjoint& at) {
  const auto [transpose_a, transpose_b] =
      std::pair(at.node().attributes.transpose_a, at.node().attributes.transpose_b);
  const Value a = at.operand(0), b = at.operand(1), g = at.whole();
  if (at.wants(0)) {
    require_alike(at, g, 1);
    at.give(0, transpose_a ? matmul(b, g, transpose_b, true) : matmul(g, b, false, !transpose_b));
  }
  if (at.wants(1)) {
    require_alike(at, g, 0);
    at.give(1, transpose_b ? matmul(g, a, true, transpose_a) : matmul(a, g, !transpose_a, false));
  }
}

}  // namespace coconet::ir
