// Ops in the reference that read their operand at other places than those of their elements.
#include <algorithm>
#include <array>

#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

/// Elements of `part` for one index along dimension `dim`.
std::int64_t behind(const Part& part, int dim) {
  std::int64_t elements = 1;
  for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < part.extent.size(); ++d)
    elements *= part.extent[d];
  return elements;
}

}  // namespace

RankData evaluate_reshape(const ReferenceStep& step, ValueId id) {
  return *step.values.at(step.graph.at(id).operands.front());
}

RankData evaluate_take(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const ValueId table = node.operands[0], numbers = node.operands[1];
  const int dim = node.attributes.dim;
  const std::int64_t last = step.extents(table)[dim] - 1;
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank), from = step.part(table, rank);
    const std::array<View, 2> views = {
        view_into(part, from, factors_of(step.graph, node, 0)),
        view_into(part, step.part(numbers, rank), factors_of(step.graph, node, 1))};
    const Data &in = step.data(table, rank), &indices = step.data(numbers, rank);
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 2>& at) {
      const auto asked = static_cast<std::int64_t>(indices[at[1]]);
      const std::int64_t own = std::clamp<std::int64_t>(asked, 0, last) - from.begin[dim];
      const bool is_here = own >= 0 && own < from.extent[dim];
      out[n] = is_here ? in[at[0] + own * behind(from, dim)] : 0;
    });
  }
  return result;
}

RankData evaluate_pad(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const ValueId operand = node.operands.front();
  const int dim = node.attributes.dim;
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank), from = step.part(operand, rank);
    const std::array<View, 1> views = {view_into(part, from, factors_of(step.graph, node, 0))};
    const Data& in = step.data(operand, rank);
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 1>& at) {
      const std::int64_t place =
          static_cast<std::int64_t>(n) / behind(part, dim) % part.extent[dim];
      const std::int64_t own = place - node.attributes.before;
      const bool is_here = own >= 0 && own < from.extent[dim];
      out[n] = is_here ? in[at[0] + own * behind(from, dim)] : 0;
    });
  }
  return result;
}

}  // namespace coconet::ir
