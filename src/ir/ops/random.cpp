// The typing rules of ops that draw at random: dropout and stochastic rounding.
#include "ir/random.h"
#include "ir/gradients/adjoint.h"

#include <fmt/format.h>

#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

/// The tensor, whose type the node gets.
const Node& infer_tensor(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) {
    fail(graph, node,
         fmt::format("{}; {} takes a tensor", operand_text(graph, from), to_string(node.op)));
  }
  take_type(node, from);
  return from;
}

void check_offset(const Graph& graph, const Node& node) {
  const Node& offset = operand(graph, node, 1);
  if (!offset.weak) {
    fail(graph, node,
         operand_text(graph, offset) +
             "; the offset must be a number: a constant, or a scalar such as the number of the "
             "step");
  }
  if (offset.op == Op::constant && !is_random_offset(offset.attributes.number))
    fail(graph, node, random_offset_error(graph, node, offset.attributes.number));
}

}  // namespace

void infer_dropout(const Graph& graph, Node& node) {
  const Node& from = infer_tensor(graph, node);
  if (!is_float(from.dtype)) {
    fail(graph, node, operand_text(graph, from) + "; dropout takes floats: cast it first");
  }
  const double probability = node.attributes.probability;
  if (!(probability >= 0 && probability < 1)) {  // NaN is neither
    fail(graph, node,
         fmt::format("drops with probability {:f}; it must be at least 0 and less than 1",
                     probability));
  }
  check_offset(graph, node);
}

void infer_stochastic_cast(const Graph& graph, Node& node) {
  const Node& from = infer_tensor(graph, node);
  node.dtype = node.attributes.dtype.value();
  if (from.dtype != DType::f32 || node.dtype != DType::bf16) {
    fail(graph, node,
         fmt::format("{}, to be cast to {}; stochastic_cast makes bf16 of f32",
                     operand_text(graph, from), to_string(node.dtype)));
  }
  check_offset(graph, node);
}

void adjoint_dropout(Adjoint& at) {
  const Attributes& drawn = at.node().attributes;  // again, the same
  at.give(0, dropout(at.whole(), drawn.probability, drawn.seed, at.operand(1)));
}

void adjoint_stochastic_cast(Adjoint& at) {
  at.give(0, widened(at.gradient()));
}

}  // namespace coconet::ir
