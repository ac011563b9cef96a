// The typing rule of all pointwise ops, driven by the dtype rule of their table row, and that of
// cast.
#include <fmt/format.h>

#include <cmath>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

std::string_view accepted(DTypeRule rule) {
  constexpr std::string_view texts[] = {"floats or integers", "floats", "any dtype", "bool",
                                        "a bool condition and two values of one dtype"};
  return texts[static_cast<std::size_t>(rule)];
}

bool accepts(DTypeRule rule, DType dtype) {
  if (rule == DTypeRule::numeric) return dtype != DType::boolean;
  if (rule == DTypeRule::floating) return is_float(dtype);
  return rule != DTypeRule::logical || dtype == DType::boolean;
}

/// The one dtype of the tensors among operands `first`..., or null when all of them are numbers.
const Node* common_dtype(const Graph& graph, const Node& node, std::size_t first) {
  const Node* typed = nullptr;
  for (std::size_t i = first; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (from.weak) continue;
    if (typed != nullptr && typed->dtype != from.dtype) {
      fail(graph, node,
           "the dtypes differ: " + operand_text(graph, *typed) + " and " +
               operand_text(graph, from) + "; cast one of them");
    }
    typed = &from;
  }
  return typed;
}

/// Fails where a number does not fit `typed`, or, where that is null, the dtype that is stated.
void check_numbers(const Graph& graph, const Node& node, std::size_t first, const Node* typed) {
  const DType dtype = typed != nullptr ? typed->dtype : *node.attributes.dtype;
  for (std::size_t i = first; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (!from.weak || number_fits(from, dtype)) continue;
    const std::string whole = typed != nullptr ? operand_text(graph, *typed)
                                               : fmt::format("the dtype is {}", to_string(dtype));
    const std::string remedy = typed != nullptr ? "cast the tensor to" : "state";
    const bool is_whole =
        from.op == Op::constant && std::floor(from.attributes.number) == from.attributes.number;
    fail(graph, node,
         operand_text(graph, from) + " and " + whole +
             (is_whole ? fmt::format("; the constant does not fit {}: {} a wider dtype",
                                     to_string(dtype), remedy)
                       : fmt::format("; only whole constants combine with integers and bool: {} a "
                                     "float dtype",
                                     remedy)));
  }
}

/// The checks of an op that chooses: its condition, and that its result has one dtype. `typed` is
/// a choice that is a tensor, or null.
void check_choice(const Graph& graph, const Node& node, const Node* typed) {
  const Node& condition = operand(graph, node, 0);
  if (!condition.weak && condition.dtype != DType::boolean) {
    fail(graph, node,
         operand_text(graph, condition) + "; the condition must be bool: compare it, != 0");
  }
  const auto& stated = node.attributes.dtype;
  if (typed == nullptr && !stated) {
    fail(graph, node,
         node.op == Op::select
             ? "both choices are numbers, which leave the dtype of the result open; state it: "
               "select(condition, a, b, f32), or \"dtype\" in JSON"
             : "what it chooses are numbers, which leave the dtype of the result open; make one of "
               "them a tensor");
  }
  if (typed != nullptr && stated && typed->dtype != *stated) {
    fail(graph, node,
         fmt::format("{}, but the dtype is stated to be {}; cast the tensor, or state {}",
                     operand_text(graph, *typed), to_string(*stated), to_string(typed->dtype)));
  }
}

}  // namespace

void infer_pointwise(const Graph& graph, Node& node) {
  const PointwiseRow& row = *find_pointwise(node.op);
  node.weak = false;
  bool all_numbers = true;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    all_numbers = all_numbers && operand(graph, node, i).weak;
  }
  if (all_numbers) {
    if (node.attributes.dtype) {
      fail(graph, node,
           "condition and choices are numbers, and so is the result, which takes the dtype of what "
           "it is combined with; drop the dtype");
    }
    return make_number(graph, node);
  }

  const std::size_t first = row.rule == DTypeRule::choose ? 1 : 0;
  const Node* typed = common_dtype(graph, node, first);
  if (row.rule == DTypeRule::choose) check_choice(graph, node, typed);
  if (typed != nullptr && !accepts(row.rule, typed->dtype)) {
    fail(graph, node,
         fmt::format("{}; it takes {}", operand_text(graph, *typed), accepted(row.rule)));
  }
  check_numbers(graph, node, first, typed);
  const DType dtype = typed != nullptr ? typed->dtype : *node.attributes.dtype;
  node.dtype =
      row.rule == DTypeRule::compare || row.rule == DTypeRule::logical ? DType::boolean : dtype;
  node.shape = broadcast_shapes(graph, node);
  combine_layouts(graph, node);
}

void infer_cast(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) {
    fail(graph, node,
         operand_text(graph, from) +
             ", which takes the dtype of what it is combined with; drop the cast");
  }
  take_type(node, from);
  node.dtype = node.attributes.dtype.value();
}

void adjoint_cast(Adjoint& at) {
  const DType from = at.operand(0).dtype(), wide = is_16_bit(from) ? f32 : from;
  const Value& gradient = at.gradient();
  const bool is_wide = is_number(gradient) || gradient.dtype() == wide;
  at.give(0, is_wide ? gradient : cast(gradient, wide));
}

}  // namespace coconet::ir
