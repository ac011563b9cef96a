// Where the matrices of a matmul begin.
#include "jit/bind/matmul_shape.h"

#include <algorithm>
#include <limits>

#include "coconet/error.h"
#include "ir/matmul.h"

namespace coconet::jit {

namespace {

// What BLAS libraries count with.
constexpr std::int64_t largest_int = std::numeric_limits<int>::max();

/// The dimension along which operand `index` is contracted.
std::size_t contracted(const RankPlan& plan, const ir::Node& node, std::size_t index) {
  return static_cast<std::size_t>(ir::matmul_dims(plan.graph(), node, index).contracted);
}

MatmulShape::Operand operand_of(const RankPlan& plan, const sched::MatmulStep& step,
                                std::size_t index) {
  const ir::Node& node = plan.graph().at(step.value);
  const ir::ValueId from = node.operands[index];
  const ir::Extents& global = plan.extents(from);
  const ir::Part& own = plan.part(from);
  const ir::Part& result = plan.part(step.value);

  MatmulShape::Operand operand;
  operand.transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  operand.row = own.extent.back();
  operand.matrices = {0};
  const std::size_t batch_rank = result.extent.size() - 2;
  const std::size_t shift = result.extent.size() - own.extent.size();
  // From the outermost batch dimension in: every matrix so far becomes one for each index of the
  // next dimension.
  for (std::size_t d = 0; d < batch_rank; ++d) {
    std::int64_t first = 0;
    std::int64_t stride = 0;
    if (d >= shift && global[d - shift] != 1) {
      stride = 1;
      for (std::size_t inner = d - shift + 1; inner < own.extent.size(); ++inner)
        stride *= own.extent[inner];
      first = result.begin[d] - own.begin[d - shift];
    }
    std::vector<std::int64_t> next;
    next.reserve(operand.matrices.size() * static_cast<std::size_t>(result.extent[d]));
    for (const std::int64_t matrix : operand.matrices) {
      for (std::int64_t i = 0; i < result.extent[d]; ++i)
        next.push_back(matrix + (first + i) * stride);
    }
    operand.matrices = std::move(next);
  }
  return operand;
}

/// Makes one tall matrix of the left side's batch, where the right side is the same for all of it.
void fold_batch(MatmulShape& shape) {
  const auto count = static_cast<std::int64_t>(shape.a.matrices.size());
  std::vector<std::int64_t>& a = shape.a.matrices;
  std::vector<std::int64_t>& b = shape.b.matrices;
  if (count < 2 || shape.a.transposed || count * shape.rows > largest_int) return;
  for (std::size_t i = 1; i < a.size(); ++i) {
    if (a[i] != a[i - 1] + shape.rows * shape.terms || b[i] != b[0]) return;
  }
  shape.rows *= count;
  a.resize(1);
  b.resize(1);
}

}  // namespace

MatmulShape matmul_shape(const RankPlan& plan, const sched::MatmulStep& step) {
  const ir::Node& node = plan.graph().at(step.value);
  const ir::Part& part = plan.part(step.value);
  MatmulShape shape;
  shape.name = step.name;
  shape.dtype = node.dtype;
  shape.rows = part.extent[part.extent.size() - 2];
  shape.columns = part.extent.back();
  shape.terms = plan.part(node.operands[1]).extent[contracted(plan, node, 1)];
  shape.a = operand_of(plan, step, 0);
  shape.b = operand_of(plan, step, 1);
  fold_batch(shape);
  shape.has_bias = step.bias >= 0;
  if (shape.has_bias)
    shape.first_of_bias = part.begin.back() - plan.buffer_part(step.bias).begin.back();
  if (std::max({shape.rows, shape.columns, shape.terms}) > largest_int) {
    throw BackendError("matmul '" + shape.name + "' multiplies matrices of " +
                       std::to_string(shape.rows) + " x " + std::to_string(shape.terms) + " and " +
                       std::to_string(shape.terms) + " x " + std::to_string(shape.columns) +
                       "; BLAS libraries count to " + std::to_string(largest_int));
  }
  return shape;
}

}  // namespace coconet::jit
