// The typing rule of reduction over tensor dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_reduction(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.weak) fail(graph, node, operand_text(graph, from) + "; a reduction takes a tensor");
  if (from.dtype == DType::boolean) {
    fail(graph, node, operand_text(graph, from) + "; cast it to an integer or float dtype first");
  }
  const auto rank = static_cast<int>(from.shape.size());
  std::vector<int>& dims = node.attributes.dims;
  for (int& dim : dims) {
    if (dim < -rank || dim >= rank) {
      fail(graph, node,
           fmt::format("reduces over dimension {}, but {}: {}", dim, operand_text(graph, from),
                       (rank == 0 ? "it has no dimensions"
                                  : fmt::format("dimensions are -{} to {}", rank, rank - 1))));
    }
    if (dim < 0) dim += rank;
  }
  std::sort(dims.begin(), dims.end());
  if (const auto twice = std::adjacent_find(dims.begin(), dims.end()); twice != dims.end()) {
    fail(graph, node, fmt::format("names dimension {} twice", *twice));
  }
  node.weak = false;
  node.dtype = from.dtype;
  node.shape.clear();
  std::vector<int> position(from.shape.size(), -1);
  for (int d = 0; d < rank; ++d) {
    const bool reduced = std::binary_search(dims.begin(), dims.end(), d);
    if (reduced && !node.attributes.keep_dims) continue;
    position[d] = static_cast<int>(node.shape.size());
    node.shape.push_back(reduced ? Dim(1) : from.shape[d]);
  }
  node.layout = from.layout;
  for (Placement& placement : node.layout) {
    if (placement.kind != Placement::Kind::sliced) continue;
    if (std::binary_search(dims.begin(), dims.end(), placement.dim)) {
      placement = node.attributes.partial ? local : replicated;
    } else {
      placement.dim = position[placement.dim];
    }
  }
}

}  // namespace coconet::ir
