// Dropout in the reference: the mask follows from the index in the whole tensor.
#include "ir/dropout.h"
#include "coconet/error.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

RankData evaluate_dropout(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const std::uint64_t threshold = dropout_threshold(node.attributes.probability);
  const double scale = dropout_scale(node.attributes.probability);
  const Extents extents = step.extents(id);
  const Part whole{Extents(extents.size(), 0), extents};
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const double number = step.data(node.operands[1], rank).front();
    if (!is_dropout_offset(number))
      throw ProgramError(dropout_offset_error(step.graph, node, number));
    const auto offset = static_cast<std::uint64_t>(number);
    const Part part = step.part(id, rank);
    const Data& in = step.data(node.operands[0], rank);
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    const std::array<View, 1> views{view_into(part, whole, extents)};
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 1>& at) {
      const auto index = static_cast<std::uint64_t>(at[0]);
      const bool kept = dropout_word(index, offset, node.attributes.seed) >= threshold;
      out[n] = kept ? round_to(node.dtype, in[n] * scale) : 0;
    });
  }
  return result;
}

}  // namespace coconet::ir
