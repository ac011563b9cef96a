// The typing rule of reduction over tensor dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/factors.h"
#include "ir/gradients/adjoint.h"
#include "ir/lists.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_reduction(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) fail(graph, node, operand_text(graph, from) + "; a reduction takes a tensor");
  if (from.dtype == DType::boolean) {
    fail(graph, node, operand_text(graph, from) + "; cast it to an integer or float dtype first");
  }
  const auto rank = static_cast<int>(from.shape.size());
  std::vector<int>& dims = node.attributes.dims;
  for (int& dim : dims) {
    if (dim < -rank || dim >= rank) {
      fail(graph, node,
           fmt::format("reduces over dimension {}, but {}: {}", dim, operand_text(graph, from),
                       (rank == 0 ? "it has no dimensions"
                                  : fmt::format("dimensions are -{} to {}", rank, rank - 1))));
    }
    if (dim < 0) dim += rank;
  }
  std::ranges::sort(dims);
  if (const auto twice = std::adjacent_find(dims.begin(), dims.end()); twice != dims.end()) {
    fail(graph, node, fmt::format("names dimension {} twice", *twice));
  }
  if (node.attributes.per_buffer &&
      (rank != 1 || !from.shape.front().symbolic() || !counted_by(from.shape.front()).empty() ||
       node.attributes.keep_dims || dims.size() != 1)) {
    fail(
        graph, node,
        operand_text(graph, from) +
            "; a reduction of each buffer takes a tensor of one dimension, made with Program::dim, "
            "by whose name the lengths of the buffers are given");
  }
  node.weak = false;
  node.dtype = from.dtype;
  node.shape.clear();
  for (int d = 0; d < rank; ++d) {
    const bool reduced = reduces(node, d);
    if (!reduced || node.attributes.keep_dims)
      node.shape.push_back(reduced ? Dim(1) : from.shape[d]);
  }
  if (node.attributes.per_buffer) node.shape = {buffers_of(from.shape.front())};
  combine_layouts(graph, node);
}

namespace {

/// A reduction of the operand's elements, as the forward pass did it.
Value reduced_alike(const Node& node, const Reducer& reducer, const Value& value) {
  if (node.attributes.per_buffer) return reducer(value, per_buffer);
  return reducer(value, node.attributes.dims, node.attributes.keep_dims);
}

/// `value`, which has the shape of the result, once for each element that was combined, or so that
/// it broadcasts to them.
Value spread(const Adjoint& at, const Value& value) {
  const Attributes& reduced = at.node().attributes;
  if (is_number(value)) return value;
  if (reduced.per_buffer) return repeat(value, at.operand(0).shape().front());
  // Dimensions before all that are left need no place.
  const bool leads =
      reduced.dims.empty() || reduced.dims.back() + 1 == static_cast<int>(reduced.dims.size());
  return reduced.keep_dims || leads ? value : expand_dims(value, reduced.dims);
}

/// The gradient of the result: a number stays one, which 16 bits need not hold.
Value wide_gradient(const Adjoint& at) {
  return is_number(at.gradient()) ? at.gradient() : widened(at.whole());
}

/// All who attain the maximum or minimum share its gradient evenly.
void give_to_extremes(Adjoint& at) {
  const Value x = widened(at.operand(0));
  const Value attains = equal(x, spread(at, widened(at.result())));
  const Value many = reduced_alike(at.node(), sum, cast(attains, x.dtype()));
  at.give(0, select(attains, spread(at, wide_gradient(at) / many), 0));
}

/// The product of the others: the result over the element where nothing is 0; an element that alone
/// is 0 has what is left without it, and the others have 0.
void give_to_factors(Adjoint& at) {
  const Value x = widened(at.operand(0)), g = wide_gradient(at);
  const Value is_zero = equal(x, 0);
  const Value zeros = reduced_alike(at.node(), sum, cast(is_zero, x.dtype()));
  const Value others = reduced_alike(at.node(), prod, select(is_zero, 1, x));
  const Value of_zero = spread(at, select(equal(zeros, 1), g * others, 0));
  const Value of_others = spread(at, select(equal(zeros, 0), g * others, 0));
  at.give(0, select(is_zero, of_zero, of_others / x));
}

}  // namespace

void adjoint_reduction(Adjoint& at) {
  switch (at.node().attributes.reduction) {
    case Reduction::sum:
    case Reduction::mean:  // which is a sum and a division
      return at.give(0, is_number(at.gradient()) ? at.gradient() : spread(at, at.whole()));
    case Reduction::max:
    case Reduction::min:
      return give_to_extremes(at);
    case Reduction::prod:
      return give_to_factors(at);
  }
}

}  // namespace coconet::ir
