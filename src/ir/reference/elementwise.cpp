// Pointwise ops, cast, copy and update in the reference: element by element, operands read at the
// global index.
#include "ir/halves.h"
#include "ir/integers.h"
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

using Bits = std::uint64_t;  // whose arithmetic wraps around

/// What computes the low bits of an integer op's result from those of its operands, for ops that
/// leave an integer's range; null for others. A double would lose the low bits of a product.
Bits (*arithmetic_of(Op op))(Bits, Bits) {
  switch (op) {
    case Op::add:
      return [](Bits a, Bits b) { return a + b; };
    case Op::subtract:
      return [](Bits a, Bits b) { return a - b; };
    case Op::multiply:
      return [](Bits a, Bits b) { return a * b; };
    case Op::square:
      return [](Bits a, Bits) { return a * a; };
    case Op::negative:
      return [](Bits a, Bits) { return 0 - a; };
    case Op::abs:
      return [](Bits a, Bits) { return static_cast<std::int64_t>(a) < 0 ? 0 - a : a; };
    default:
      return nullptr;
  }
}

/// Whether what the node's meaning makes of its operands is an integer already, which wraps around
/// where it does not fit the result's dtype. A float saturates.
bool makes_integers(const Graph& graph, const Node& node) {
  if (!is_integer(node.dtype)) return false;
  return find_pointwise(node.op) != nullptr || !is_float(graph.at(node.operands.back()).dtype);
}

}  // namespace

RankData evaluate_iota(const ReferenceStep& step, ValueId id) {
  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    Data& out = result.emplace_back(static_cast<std::size_t>(step.part(id, rank).count()));
    for (std::size_t n = 0; n < out.size(); ++n)
      out[n] = round_to(step.graph.at(id).dtype, static_cast<double>(n));
  }
  return result;
}

RankData evaluate_elementwise(const ReferenceStep& step, ValueId id) {
  const Node& node = step.graph.at(id);
  const std::size_t first = node.op == Op::update ? 1 : 0;  // what it writes
  const auto meaning = meaning_of(node);
  const auto arithmetic = is_integer(node.dtype) ? arithmetic_of(node.op) : nullptr;
  const bool wraps = makes_integers(step.graph, node);
  const auto element = [&](double a, double b, double c) {
    if (arithmetic != nullptr) {
      const Bits bits = arithmetic(bits_of_integer(a), bits_of_integer(b));
      return static_cast<double>(wrapped(node.dtype, bits));
    }
    const double made = meaning(a, b, c);
    return wraps ? static_cast<double>(wrapped(node.dtype, made)) : round_to(node.dtype, made);
  };

  RankData result;
  for (int rank = 0; rank < step.graph.mesh.size(); ++rank) {
    const Part part = step.part(id, rank);
    constexpr std::size_t most_operands = 3;
    std::array<View, most_operands> views;
    std::array<const double*, most_operands> data{};
    constexpr double absent = 0;  // what the missing operands of a row with fewer read
    for (std::size_t i = 0; i < most_operands; ++i) {
      if (const std::size_t from = first + i; from < node.operands.size()) {
        const ValueId operand = node.operands[from];
        views[i] = view_into(part, step.part(operand, rank), factors_of(step.graph, node, from));
        data[i] = step.data(operand, rank).data();
      } else {
        views[i] = View{0, Extents(part.extent.size(), 0)};
        data[i] = &absent;
      }
    }
    Data& out = result.emplace_back(static_cast<std::size_t>(part.count()));
    walk(part, views, [&](std::size_t n, const std::array<std::int64_t, most_operands>& at) {
      out[n] = element(data[0][at[0]], data[1][at[1]], data[2][at[2]]);
    });
  }
  return result;
}

}  // namespace coconet::ir
