// Where the matrices of a matmul begin.
#include "jit/bind/products.h"

#include <algorithm>
#include <limits>

#include "coconet/error.h"
#include "ir/matmul.h"

namespace coconet::jit {

namespace {

// What BLAS libraries count with.
constexpr std::int64_t largest_int = std::numeric_limits<int>::max();

}  // namespace

Products::Products(const sched::Plan& plan, const sched::MatmulStep& step,
                   const std::map<std::string, std::int64_t>& sizes, int rank)
    : name(step.name), dtype(plan.graph.at(step.value).dtype), out(step.out) {
  const ir::Node& node = plan.graph.at(step.value);
  const ir::Part part =
      ir::part_of(plan.graph.mesh, node.layout, ir::global_extents(node.shape, sizes), rank);
  rows = part.extent[part.extent.size() - 2];
  columns = part.extent.back();
  a = operand_of(plan, step, 0, sizes, rank, part);
  b = operand_of(plan, step, 1, sizes, rank, part);
  fold_batch();
  if (step.bias >= 0) {
    const sched::PlanBuffer& row = plan.buffers[static_cast<std::size_t>(step.bias)];
    bias = step.bias;
    first_of_bias = part.begin.back() - ir::part_of(plan.graph.mesh, row.layout,
                                                    ir::global_extents(row.shape, sizes), rank)
                                            .begin.back();
  }
  if (std::max({rows, columns, terms}) > largest_int) {
    throw BackendError("matmul '" + name + "' multiplies matrices of " + std::to_string(rows) +
                       " x " + std::to_string(terms) + " and " + std::to_string(terms) + " x " +
                       std::to_string(columns) + "; BLAS libraries count to " +
                       std::to_string(largest_int));
  }
}

Products::Operand Products::operand_of(const sched::Plan& plan, const sched::MatmulStep& step,
                                       std::size_t index,
                                       const std::map<std::string, std::int64_t>& sizes, int rank,
                                       const ir::Part& part) {
  const ir::Node& node = plan.graph.at(step.value);
  const ir::Node& from = plan.graph.at(node.operands[index]);
  const ir::MatmulDims dims = ir::matmul_dims(plan.graph, node, index);
  const ir::Extents global = ir::global_extents(from.shape, sizes);
  const ir::Part own = ir::part_of(plan.graph.mesh, from.layout, global, rank);
  terms = own.extent[static_cast<std::size_t>(dims.contracted)];

  Operand operand;
  operand.buffer = index == 0 ? step.a : step.b;
  operand.transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  operand.row = own.extent.back();
  operand.matrices = {0};
  const std::size_t batch_rank = part.extent.size() - 2;
  const std::size_t shift = part.extent.size() - own.extent.size();
  // From the outermost batch dimension in: every matrix so far becomes one for each index of the next dimension.
  for (std::size_t d = 0; d < batch_rank; ++d) {
    std::int64_t first = 0;
    std::int64_t stride = 0;
    if (d >= shift && global[d - shift] != 1) {
      stride = 1;
      for (std::size_t inner = d - shift + 1; inner < own.extent.size(); ++inner)
        stride *= own.extent[inner];
      first = part.begin[d] - own.begin[d - shift];
    }
    std::vector<std::int64_t> next;
    next.reserve(operand.matrices.size() * static_cast<std::size_t>(part.extent[d]));
    for (const std::int64_t matrix : operand.matrices) {
      for (std::int64_t i = 0; i < part.extent[d]; ++i)
        next.push_back(matrix + (first + i) * stride);
    }
    operand.matrices = std::move(next);
  }
  return operand;
}

void Products::fold_batch() {
  const auto count = static_cast<std::int64_t>(a.matrices.size());
  if (count < 2 || a.transposed || count * rows > largest_int) return;
  for (std::size_t i = 1; i < a.matrices.size(); ++i) {
    if (a.matrices[i] != a.matrices[i - 1] + rows * terms || b.matrices[i] != b.matrices[0]) return;
  }
  rows *= count;
  a.matrices.resize(1);
  b.matrices.resize(1);
}

}  // namespace coconet::jit
