// The typing rules of expand and expand_dims: a number or a tensor with more elements, and one with
// more dimensions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

/// The dtype of a number that is expanded.
DType stated_dtype(const Graph& graph, const Node& node, const Node& from) {
  const auto& dtype = node.attributes.dtype;
  if (!dtype) {
    fail(graph, node,
         operand_text(graph, from) + ", which leaves the dtype of the result open; state it");
  }
  if (!number_fits(from, *dtype)) {
    fail(graph, node,
         fmt::format("{}, which does not fit {}", operand_text(graph, from), to_string(*dtype)));
  }
  return *dtype;
}

}  // namespace

void infer_expand(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  node.weak = false;
  node.shape = node.attributes.shape;
  for (const Dim& dim : node.shape) require_known(graph, node, dim);
  if (from.weak) {
    node.dtype = stated_dtype(graph, node, from);
    node.layout.assign(graph.mesh.axes().size(), replicated);
    return;
  }
  if (node.attributes.dtype && *node.attributes.dtype != from.dtype) {
    fail(graph, node,
         fmt::format("{}, but the dtype is stated to be {}; cast the tensor, or leave it out",
                     operand_text(graph, from), to_string(*node.attributes.dtype)));
  }
  node.dtype = from.dtype;
  const std::size_t rank = node.shape.size(), own = from.shape.size();
  bool fits = own <= rank;
  for (std::size_t d = 0; fits && d < own; ++d)
    fits = from.shape[d] == node.shape[d + rank - own] || from.shape[d] == Dim(1);
  if (!fits) {
    fail(graph, node,
         operand_text(graph, from) + ", which does not broadcast to " + to_string(node.shape) +
             "; dimensions counted from the right must be the same, or 1 in the operand");
  }
  require_unscattered(graph, node, node.shape);
  combine_layouts(graph, node);
}

void infer_expand_dims(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  std::vector<int>& dims = node.attributes.inserted;
  if (from.weak || dims.empty()) {
    fail(graph, node,
         operand_text(graph, from) + "; it takes a tensor and the dimensions to insert");
  }
  const auto rank = static_cast<int>(from.shape.size() + dims.size());
  const auto as_given = dims;
  for (int& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::ranges::sort(dims);
  if (dims.front() < 0 || dims.back() >= rank || std::ranges::adjacent_find(dims) != dims.end()) {
    fail(graph, node,
         fmt::format("inserts the dimensions {{{}}}, but {}: the result has {}, of which each is "
                     "named once at most, from 0 to {}",
                     fmt::join(as_given, ", "), operand_text(graph, from),
                     counted(static_cast<std::size_t>(rank), "dimension"), rank - 1));
  }
  take_type(node, from);
  for (const int dim : dims) node.shape.insert(node.shape.begin() + dim, Dim(1));
  require_unscattered(graph, node, node.shape);
  combine_layouts(graph, node);
}

void adjoint_expand(Adjoint& at) {
  at.give_broadcast(0, at.gradient());
}

void adjoint_expand_dims(Adjoint& at) {
  const bool is_same = is_number(at.gradient());
  at.give(0, is_same ? at.gradient() : sum(at.whole(), at.node().attributes.inserted));
}

}  // namespace coconet::ir
