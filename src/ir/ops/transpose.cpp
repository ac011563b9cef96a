// The typing rule of transpose: a tensor with its dimensions in another order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_transpose(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  const auto rank = static_cast<int>(from.shape.size());
  if (from.weak || rank < 2)
    fail(graph, node, operand_text(graph, from) + "; it takes a tensor of 2 dimensions or more");
  std::vector<int> dims = node.attributes.permutation, all(from.shape.size());
  for (int& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::iota(all.begin(), all.end(), 0);
  if (!std::ranges::is_permutation(dims, all)) {
    const std::string named =
        dims.size() == all.size()
            ? fmt::format("{{{}}}", fmt::join(node.attributes.permutation, ", "))
            : "of " + counted(dims.size(), "dimension");
    fail(graph, node,
         fmt::format("has the permutation {}, but {}: it names each of its dimensions once, from 0 "
                     "to {}",
                     named, operand_text(graph, from), rank - 1));
  }
  take_type(node, from);
  for (std::size_t d = 0; d < dims.size(); ++d) node.shape[d] = from.shape[dims[d]];
  node.attributes.permutation = std::move(dims);
  combine_layouts(graph, node);
}

void adjoint_transpose(Adjoint& at) {
  if (is_number(at.gradient())) return at.give(0, at.gradient());
  const std::vector<int>& permutation = at.node().attributes.permutation;
  std::vector<int> back(permutation.size());
  for (std::size_t d = 0; d < permutation.size(); ++d)
    back[static_cast<std::size_t>(permutation[d])] = static_cast<int>(d);
  at.give(0, transpose(at.whole(), back));
}

}  // namespace coconet::ir
