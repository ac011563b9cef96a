// Pointwise ops, cast, copy and update in the reference: element by element, operands read at the
// global index.
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

RankData evaluate_elementwise(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  // cast, copy and update hand one operand on; the rounding of the result is all they do.
  std::vector<ValueId> operands = node.operands;
  if (node.op == Op::update) operands = {node.operands[1]};
  const PointwiseRow* const row = find_pointwise(node.op);

  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank);
    constexpr std::size_t most_operands = 3;
    std::array<View, most_operands> views;
    std::array<const double*, most_operands> data{};
    constexpr double absent = 0;  // what the missing operands of a row with fewer read
    for (std::size_t i = 0; i < most_operands; ++i) {
      if (i < operands.size()) {
        views[i] = view_into(part, step.part(operands[i], rank), step.extents(operands[i]));
        data[i] = step.data(operands[i], rank).data();
      } else {
        views[i] = View{0, Extents(part.extent.size(), 0)};
        data[i] = &absent;
      }
    }
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, most_operands>& at) {
      const double a = data[0][at[0]];
      out[n] = round_to(node.dtype,
                        row == nullptr ? a : row->reference(a, data[1][at[1]], data[2][at[2]]));
    });
  }
  return result;
}

}  // namespace coconet::ir
