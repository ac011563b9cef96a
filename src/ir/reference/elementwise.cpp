// Pointwise ops, cast, copy and update in the reference: element by element, operands read at the
// global index.
#include "ir/halves.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

/// What makes an element of the results, before it is rounded, of those of the operands.
double (*meaning_of(const Node& node))(double, double, double) {
  switch (node.op) {
    case Op::upper_half:
      return [](double a, double, double) { return upper_half(a); };
    case Op::lower_half:
      return [](double a, double, double) { return lower_half(a); };
    case Op::join_halves:
      return [](double a, double b, double) { return join_halves(a, b); };
    default: {
      // The others hand one operand on; the rounding of the result is all they do.
      const PointwiseRow* const row = find_pointwise(node.op);
      return row != nullptr ? row->reference : [](double a, double, double) { return a; };
    }
  }
}

}  // namespace

RankData evaluate_elementwise(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  std::vector<ValueId> operands = node.operands;
  if (node.op == Op::update) operands = {node.operands[1]};
  const auto meaning = meaning_of(node);

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
      out[n] = round_to(node.dtype, meaning(data[0][at[0]], data[1][at[1]], data[2][at[2]]));
    });
  }
  return result;
}

}  // namespace coconet::ir
