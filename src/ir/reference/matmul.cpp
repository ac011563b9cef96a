// Matmul in the reference: three loops, of what each rank holds.
#include "ir/matmul.h"

#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

/// Where operand `index` has the elements of the result that start in `part`, and the step along
/// its contracted dimension, of which it holds `terms`.
struct Operand {
  View view;
  std::int64_t step = 0;
  std::int64_t terms = 0;
};

Operand operand_of(const ReferenceStep& step, const Node& node, std::size_t index, int rank,
                   const Part& part) {
  const ValueId id = node.operands[index];
  const MatmulDims dims = matmul_dims(step.graph, node, index);
  const Part own = step.part(id, rank);
  const Extents extents = step.extents(id);
  Operand operand{{0, Extents(part.extent.size(), 0)}};
  operand.terms = own.extent[dims.contracted];
  const std::size_t shift = part.extent.size() - own.extent.size();
  std::int64_t stride = 1;
  for (std::size_t d = own.extent.size(); d-- > 0;) {
    const int dim = static_cast<int>(d);
    if (dim == dims.contracted) {
      operand.step = stride;
    } else {
      const std::size_t to =
          dim == dims.kept ? part.extent.size() - (index == 0 ? 2 : 1) : d + shift;
      const bool repeats = dim != dims.kept && extents[d] == 1;
      if (!repeats) {
        operand.view.strides[to] = stride;
        operand.view.start += (part.begin[to] - own.begin[d]) * stride;
      }
    }
    stride *= own.extent[d];
  }
  return operand;
}

}  // namespace

RankData evaluate_matmul(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank);
    const Operand a = operand_of(step, node, 0, rank, part);
    const Operand b = operand_of(step, node, 1, rank, part);
    const double* const left = step.data(node.operands[0], rank).data();
    const double* const right = step.data(node.operands[1], rank).data();
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    const std::array<View, 2> views{a.view, b.view};
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 2>& at) {
      double total = 0;
      for (std::int64_t k = 0; k < a.terms; ++k)
        total += left[at[0] + k * a.step] * right[at[1] + k * b.step];
      out[n] = round_to(node.dtype, total);
    });
  }
  return result;
}

}  // namespace coconet::ir
