// Reductions over tensor dimensions in the reference, combined across ranks where a reduced
// dimension is sliced.
#include <cstdint>
#include <limits>

#include "ir/integers.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/walk.h"

namespace coconet::ir {

namespace {

// Whether ranks `a` and `b` hold pieces of the same result: they differ only along axes that slice
// what is reduced. A partial reduction leaves the combination to the collective that follows it.
bool combine_across(const Graph& graph, const Node& node, int a, int b) {
  if (node.attributes.partial) return a == b;
  const Placements& layout = graph.at(node.operands[0]).layout;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const int axis = static_cast<int>(i);
    const bool combined = layout[i].kind == Placement::Kind::sliced && reduces(node, layout[i].dim);
    if (!combined && graph.mesh.coordinate(a, axis) != graph.mesh.coordinate(b, axis)) return false;
  }
  return true;
}

}  // namespace

double identity(Reduction reduction) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double identities[] = {0, 0, -infinity, infinity, 1};  // sum, mean, max, min, prod
  return identities[static_cast<std::size_t>(reduction)];
}

double combine(Reduction reduction, DType dtype, double a, double b) {
  // Integers wrap around at every step: a double would lose their low bits first.
  if (is_integer(dtype) && (reduction == Reduction::sum || reduction == Reduction::prod)) {
    const std::uint64_t x = bits_of_integer(a), y = bits_of_integer(b);
    return static_cast<double>(wrapped(dtype, reduction == Reduction::sum ? x + y : x * y));
  }
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
      return a + b;
    case Reduction::prod:
      return a * b;
    case Reduction::max:
      return a > b || a != a ? a : b;
    case Reduction::min:
      return a < b || a != a ? a : b;
  }
  return a;
}

namespace {

/// By element of dimension `dim`, its buffer.
std::vector<std::size_t> buffers_by_element(const ReferenceStep& step, const Dim& dim) {
  std::vector<std::size_t> buffers;
  const std::vector<std::int64_t>& lengths = step.lists.at(dim.name);
  for (std::size_t buffer = 0; buffer < lengths.size(); ++buffer)
    buffers.insert(buffers.end(), static_cast<std::size_t>(lengths[buffer]), buffer);
  return buffers;
}

/// A rank's share of a reduction of each buffer.
Data reduce_buffers(const ReferenceStep& step, const Node& node, int rank) {
  const ValueId operand = node.operands.front();
  const std::vector<std::size_t> buffers =
      buffers_by_element(step, step.graph.at(operand).shape.front());
  const auto begin = static_cast<std::size_t>(step.part(operand, rank).begin.front());
  const Data& in = step.data(operand, rank);
  Data out(static_cast<std::size_t>(step.sizes.at(node.shape.front().name)),
           identity(node.attributes.reduction));
  for (std::size_t n = 0; n < in.size(); ++n) {
    double& total = out[buffers[begin + n]];
    total = combine(node.attributes.reduction, node.dtype, total, in[n]);
  }
  return out;
}

}  // namespace

RankData evaluate_repeat(const ReferenceStep& step, ValueId id) {
  const std::vector<std::size_t> buffers =
      buffers_by_element(step, step.graph.at(id).shape.front());
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Data& in = step.data(step.graph.at(id).operands.front(), rank);
    Data& out = result.emplace_back();
    for (const std::size_t buffer : buffers) out.push_back(in[buffer]);
  }
  return result;
}

RankData evaluate_reduction(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const Reduction reduction = node.attributes.reduction;
  const Factors factors = factors_of(step.graph, node, 0);
  const int ranks = step.graph.mesh.size();

  RankData partial;
  for (int rank = 0; rank < ranks; ++rank) {
    if (node.attributes.per_buffer) {
      partial.push_back(reduce_buffers(step, node, rank));
      continue;
    }
    const Part part = step.part(id, rank);
    const Part read = step.part(node.operands[0], rank);
    const std::vector<std::int64_t> terms = contracted_offsets(read, factors);
    const Data& in = step.data(node.operands[0], rank);
    Data& out = partial.emplace_back(static_cast<std::size_t>(part.count()), identity(reduction));
    const std::array<View, 1> views{view_into(part, read, factors)};
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, 1>& at) {
      for (const std::int64_t term : terms)
        out[n] = combine(reduction, node.dtype, out[n], in[at[0] + term]);
    });
  }

  RankData result;
  for (int rank = 0; rank < ranks; ++rank) {
    Data& out = result.emplace_back(partial[rank].size(), identity(reduction));
    for (int other = 0; other < ranks; ++other) {
      if (!combine_across(step.graph, node, rank, other)) continue;
      const Data& piece = partial[other];
      for (std::size_t n = 0; n < out.size(); ++n)
        out[n] = combine(reduction, node.dtype, out[n], piece[n]);
    }
    for (double& element : out) element = round_to(node.dtype, element);
  }
  return result;
}

}  // namespace coconet::ir
