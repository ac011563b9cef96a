// Matmul in the reference: three loops, of what each rank holds.
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

RankData evaluate_matmul(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const std::array<Factors, 2> factors{factors_of(step.graph, node, 0),
                                       factors_of(step.graph, node, 1)};
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank);
    const Part a = step.part(node.operands[0], rank), b = step.part(node.operands[1], rank);
    const std::vector<std::int64_t> terms_a = contracted_offsets(a, factors[0]);
    const std::vector<std::int64_t> terms_b = contracted_offsets(b, factors[1]);
    const double* const left = step.data(node.operands[0], rank).data();
    const double* const right = step.data(node.operands[1], rank).data();
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    const std::array<View, 2> views{view_into(part, a, factors[0]), view_into(part, b, factors[1])};
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 2>& at) {
      double total = 0;
      for (std::size_t k = 0; k < terms_a.size(); ++k)
        total += left[at[0] + terms_a[k]] * right[at[1] + terms_b[k]];
      out[n] = round_to(node.dtype, total);
    });
  }
  return result;
}

}  // namespace coconet::ir
