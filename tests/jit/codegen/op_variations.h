// What the attributes of an op can be, found by trying: which fields an op reads is its own affair.
#pragma once

#include <vector>

#include "coconet/coconet.h"
#include "ir/graph.h"

namespace coconet::test {

/// The structural ops, in table order.
[[nodiscard]] std::vector<ir::Op> structural_ops();

/// Nodes of `op` without operands that differ in what the op reads: every legal pair of values of
/// two attributes, the others being the defaults.
[[nodiscard]] std::vector<ir::Node> variations_of(ir::Op op, const Mesh& mesh);

/// A program with tensors of each kind that ops take, all laid out by `layout`, and the operands
/// that an op may have: the first `arity` of any of the lists.
struct OperandPool {
  using Lists = std::vector<std::vector<ir::ValueId>>;
  OperandPool(const Mesh& mesh, DType dtype, const ir::Placements& layout);

  /// For `row`: values of which scalar "domain" chooses the range.
  [[nodiscard]] Lists operands_of(const ir::PointwiseRow& row);

  Program program;
  Lists of_tensors;  ///< for structural ops

 private:
  DType dtype_;
  Layout layout_;
  Shape shape_;
  Lists of_pointwise_;  ///< of rows that take any operands; the last list is of choices
};

/// Layouts of a matrix along all axes of `mesh`.
[[nodiscard]] std::vector<ir::Placements> matrix_layouts(const Mesh& mesh);

/// The id of `node` with `operands` appended to `graph`, or -1 when a rule of the language refuses
/// it.
[[nodiscard]] ir::ValueId try_append(ir::Graph& graph, ir::Node node,
                                     const std::vector<ir::ValueId>& operands);

}  // namespace coconet::test
