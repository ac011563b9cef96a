// The typing rules of window and pad: a part of a dimension, and a dimension with zeros around it.
// Each is the other's adjoint.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

/// The extent of the dimension that the node changes, which every rank must have whole.
std::int64_t whole_extent(const Graph& graph, Node& node, const Node& from) {
  require_dim(graph, node, from, "takes");
  const int dim = node.attributes.dim;
  const Dim& extent = from.shape[dim];
  if (extent.symbolic()) {
    fail(graph, node,
         fmt::format("{}; the extent of dimension {} is one that the program states, not '{}'",
                     operand_text(graph, from), dim, extent.name));
  }
  for (const Placement& placement : from.layout) {
    if (placement != sliced(dim)) continue;
    fail(graph, node,
         fmt::format("{}, of which no rank has all along dimension {}: all_gather it first",
                     operand_text(graph, from), dim));
  }
  return extent.extent;
}

}  // namespace

void infer_window(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  const std::int64_t extent = whole_extent(graph, node, from);
  const auto [dim, begin, end, step] = std::tuple(node.attributes.dim, node.attributes.begin,
                                                  node.attributes.end, node.attributes.step);
  if (step < 1 || begin < 0 || end <= begin || end > extent) {
    fail(graph, node,
         fmt::format("has the elements from {} to {}, every {}, but {}: they are some from 0 to {} "
                     "of dimension {}",
                     begin, end, step, operand_text(graph, from), extent, dim));
  }
  take_type(node, from);
  node.shape[dim] = (end - begin + step - 1) / step;
  combine_layouts(graph, node);
}

void infer_pad(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  const std::int64_t extent = whole_extent(graph, node, from);
  const std::int64_t before = node.attributes.before, after = node.attributes.after;
  if (before < 0 || after < 0) {
    fail(graph, node,
         fmt::format("has {} zeros in front and {} behind; window takes elements away", before,
                     after));
  }
  std::int64_t padded = 0;
  if (__builtin_add_overflow(before, extent, &padded) ||
      __builtin_add_overflow(padded, after, &padded)) {
    fail(graph, node,
         fmt::format("has {} zeros in front and {} behind, which is more than memory has addresses",
                     before, after));
  }
  take_type(node, from);
  node.shape[node.attributes.dim] = padded;
  combine_layouts(graph, node);
}

void adjoint_window(Adjoint& at) {
  const Attributes own = at.node().attributes;
  const int dim = own.dim;
  const std::int64_t extent = at.operand(0).shape()[dim].extent;
  Value gradient = at.whole();
  if (own.step > 1) {
    // Zeros behind each element, and those behind the last element go where the tensor ends.
    Shape merged = gradient.shape();
    const std::int64_t spread = merged[dim].extent * own.step;
    merged[dim] = spread;
    gradient = pad(expand_dims(gradient, {dim + 1}), dim + 1, 0, own.step - 1);
    gradient = window(reshape(gradient, merged), dim, 0, std::min(spread, extent - own.begin));
  }
  const std::int64_t end = own.begin + gradient.shape()[dim].extent;
  at.give(0, pad(gradient, dim, own.begin, extent - end));
}

void adjoint_pad(Adjoint& at) {
  if (is_number(at.gradient())) return at.give(0, at.gradient());
  const Attributes& own = at.node().attributes;
  const std::int64_t extent = at.operand(0).shape()[own.dim].extent;
  at.give(0, window(at.whole(), own.dim, own.before, own.before + extent));
}

}  // namespace coconet::ir
