// Which dimensions of operands and results are one loop, by op.
#include "ir/factors.h"

#include <algorithm>

#include "ir/letters.h"
#include "ir/lists.h"

namespace coconet::ir {

namespace {

using Kind = Factor::Kind;

Factors factors_reduction(const Graph& graph, const Node& node) {
  const std::size_t rank = graph.at(node.operands.front()).shape.size();
  Factors factors;
  int of_result = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool reduced = reduces(node, static_cast<int>(d));
    const bool stays = !reduced || node.attributes.keep_dims;
    factors.push_back({reduced ? Kind::contracted : Kind::passes, stays ? of_result++ : -1});
  }
  return factors;
}

Factors factors_transpose(const Node& node) {
  const std::vector<int>& permutation = node.attributes.permutation;
  Factors factors(permutation.size());
  for (std::size_t d = 0; d < permutation.size(); ++d)
    factors[static_cast<std::size_t>(permutation[d])] = {Kind::passes, static_cast<int>(d)};
  return factors;
}

Factors factors_expand_dims(const Node& node) {
  Factors factors;
  for (int d = 0; d < static_cast<int>(node.shape.size()); ++d) {
    if (!std::ranges::binary_search(node.attributes.inserted, d))
      factors.push_back({Kind::passes, d});
  }
  return factors;
}

Factors factors_window(const Node& node) {
  Factors factors;
  for (int d = 0; d < static_cast<int>(node.shape.size()); ++d)
    factors.push_back({Kind::passes, d});
  factors[node.attributes.dim].begin = node.attributes.begin;
  factors[node.attributes.dim].step = node.attributes.step;
  return factors;
}

/// Of what is taken from: dimensions behind the one that is looked up are the result's last ones.
Factors factors_gather(const Graph& graph, const Node& node) {
  const int own = static_cast<int>(graph.at(node.operands.front()).shape.size());
  const int shift = static_cast<int>(node.shape.size()) - own, dim = node.attributes.dim;
  Factors factors;
  for (int d = 0; d < own; ++d) factors.push_back({Kind::passes, d < dim ? d : d + shift});
  factors[dim] = {Kind::looked_up};
  return factors;
}

/// [.., M, K] and [.., K, N]: M and N pass, K is contracted, and what is before them broadcasts.
Factors factors_matmul(const Graph& graph, const Node& node, std::size_t index) {
  Factors factors = aligned(graph.at(node.operands[index]).shape, node.shape);
  const MatmulDims dims = matmul_dims(graph, node, index);
  factors[dims.contracted] = {Kind::contracted};
  factors[dims.kept] = {Kind::passes, static_cast<int>(node.shape.size()) - (index == 0 ? 2 : 1)};
  return factors;
}

/// By the letters that dimensions have.
Factors factors_contract(const Node& node, std::size_t index) {
  const Letters letters = letters_in(node.attributes.letters);
  const std::string contracted = letters.contracted();
  Factors factors;
  for (const char letter : letters.of(index)) {
    const std::size_t to = letters.result.find(letter);
    if (to != std::string::npos) {
      factors.push_back({Kind::passes, static_cast<int>(to)});
    } else {
      factors.push_back({Kind::contracted, -1, static_cast<int>(contracted.find(letter))});
    }
  }
  return factors;
}

}  // namespace

Factors factors_of(const Graph& graph, const Node& node, std::size_t index) {
  if (node.op == Op::reduction) return factors_reduction(graph, node);
  if (node.op == Op::transpose) return factors_transpose(node);
  if (node.op == Op::expand_dims) return factors_expand_dims(node);
  if (node.op == Op::window) return factors_window(node);
  if (node.op == Op::reshape)
    return factors_of_reshape(graph.at(node.operands.front()).shape, node.shape).value();
  if (is_gather(node.op) && index == 0) return factors_gather(graph, node);
  if (node.op == Op::matmul) return factors_matmul(graph, node, index);
  if (node.op == Op::contract) return factors_contract(node, index);
  return aligned(graph.at(node.operands.at(index)).shape, node.shape);
}

Factors aligned(const Shape& own, const Shape& result) {
  const int shift = static_cast<int>(result.size()) - static_cast<int>(own.size());
  Factors factors;
  for (int d = 0; d < static_cast<int>(own.size()); ++d) {
    const int to = d + shift;
    if (to < 0) {
      factors.push_back({Kind::repeats});
    } else if (own[d] == result[to]) {
      factors.push_back({Kind::passes, to});
    } else {
      const bool of_buffers = !counted_by(own[d]).empty();
      factors.push_back({of_buffers         ? Kind::indexed
                         : own[d] == Dim(1) ? Kind::repeats
                                            : Kind::passes,
                         to});
    }
  }
  return factors;
}

Factors factors_through(const Graph& graph, const Node& view, const Shape& result) {
  Factors factors = factors_of(graph, view, 0);
  const Factors of_view = aligned(view.shape, result);
  for (Factor& factor : factors) {
    if (factor.of_result < 0) continue;
    const Factor& outer = of_view[factor.of_result];
    if (factor.kind == Kind::passes) factor.kind = outer.kind;
    factor.of_result = outer.of_result;
  }
  return factors;
}

std::optional<Factors> factors_of_reshape(const Shape& own, const Shape& result) {
  Factors factors(own.size(), Factor{Kind::regrouped});
  std::size_t from = 0, to = 0;
  std::int64_t missing = 1, spare = 1;  // what a side has more of since the last that passed
  const auto is_one = [](const Shape& shape, std::size_t d) {
    return d < shape.size() && shape[d] == Dim(1);
  };
  while (from < own.size() || to < result.size()) {
    const bool begins = missing == spare;
    if (begins) missing = spare = 1;
    const bool has_both = from < own.size() && to < result.size();
    if (begins && has_both && own[from] == result[to]) {
      factors[from++] = {Kind::passes, static_cast<int>(to++)};
    } else if (is_one(own, from)) {
      ++from;
    } else if (is_one(result, to)) {
      ++to;
    } else if (to < result.size() && (missing < spare || from == own.size() || begins)) {
      if (result[to].symbolic() || __builtin_mul_overflow(missing, result[to++].extent, &missing))
        return std::nullopt;
    } else {
      if (own[from].symbolic() || __builtin_mul_overflow(spare, own[from++].extent, &spare))
        return std::nullopt;
    }
  }
  return missing == spare ? std::optional(factors) : std::nullopt;
}

bool reduces(const Node& node, int dim) {
  return std::ranges::binary_search(node.attributes.dims, dim);
}

std::vector<std::size_t> contracted_dims(const Factors& factors) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (factors[d].kind == Kind::contracted) dims.push_back(d);
  }
  std::ranges::stable_sort(dims, {}, [&](std::size_t d) { return factors[d].term; });
  return dims;
}

MatmulDims matmul_dims(const Graph& graph, const Node& node, std::size_t index) {
  const int rank = static_cast<int>(graph.at(node.operands[index]).shape.size());
  const bool transposed = index == 0 ? node.attributes.transpose_a : node.attributes.transpose_b;
  // The contracted dimension is the last of the one and the last but one of the other.
  const bool contracts_last = (index == 0) != transposed;
  return {contracts_last ? rank - 1 : rank - 2, contracts_last ? rank - 2 : rank - 1};
}

}  // namespace coconet::ir
