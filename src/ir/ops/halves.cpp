// The typing rules of the halves of an f32.
#include <fmt/format.h>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

namespace {

void require_dtype(const Graph& graph, const Node& node, std::size_t index, DType dtype) {
  const Node& from = operand(graph, node, index);
  if (!from.weak && from.dtype == dtype) return;
  fail(graph, node,
       fmt::format("{}; operand {} of {} must be a tensor of {}", operand_text(graph, from),
                   index + 1, to_string(node.op), to_string(dtype)));
}

void infer_half(const Graph& graph, Node& node, DType dtype) {
  require_dtype(graph, node, 0, DType::f32);
  take_type(node, operand(graph, node, 0));
  node.dtype = dtype;
}

}  // namespace

void infer_upper_half(const Graph& graph, Node& node) {
  infer_half(graph, node, DType::bf16);
}

void infer_lower_half(const Graph& graph, Node& node) {
  infer_half(graph, node, DType::i16);
}

void infer_join_halves(const Graph& graph, Node& node) {
  require_dtype(graph, node, 0, DType::bf16);
  require_dtype(graph, node, 1, DType::i16);
  node.weak = false;
  node.dtype = DType::f32;
  node.shape = broadcast_shapes(graph, node);
  combine_layouts(graph, node);
}

// Bits have no gradient.
void adjoint_upper_half(Adjoint& /*at*/) {}
void adjoint_lower_half(Adjoint& /*at*/) {}
void adjoint_join_halves(Adjoint& /*at*/) {}

}  // namespace coconet::ir
