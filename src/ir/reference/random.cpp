// Ops that draw at random in the reference: an element's word follows from its index in the whole
// tensor.
#include "ir/random.h"
#include "coconet/error.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

/// What `node` makes of an element with a random word.
double evaluate(const Node& node, double value, std::uint32_t word) {
  if (node.op == Op::stochastic_cast) return rounded_stochastically(value, word);
  const bool kept = word >= dropout_threshold(node.attributes.probability);
  return kept ? round_to(node.dtype, value * dropout_scale(node.attributes.probability)) : 0;
}

}  // namespace

RankData evaluate_random(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const Extents extents = step.extents(id);
  const Part whole{Extents(extents.size(), 0), extents};
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const double number = step.data(node.operands[1], rank).front();
    if (!is_random_offset(number))
      throw ProgramError(random_offset_error(step.graph, node, number));
    const auto offset = static_cast<std::uint64_t>(number);
    const Part part = step.part(id, rank);
    const Data& in = step.data(node.operands[0], rank);
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    const std::array<View, 1> views{view_into(part, whole)};
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 1>& at) {
      const auto index = static_cast<std::uint64_t>(at[0]);
      out[n] = evaluate(node, in[n], random_word(index, offset, node.attributes.seed));
    });
  }
  return result;
}

}  // namespace coconet::ir
