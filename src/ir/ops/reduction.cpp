// The typing rule of reduction over tensor dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/factors.h"
#include "ir/lists.h"
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
  std::ranges::sort(dims);
  if (const auto twice = std::adjacent_find(dims.begin(), dims.end()); twice != dims.end()) {
    fail(graph, node, fmt::format("names dimension {} twice", *twice));
  }
  if (node.attributes.per_buffer &&
      (rank != 1 || !from.shape.front().symbolic() || !counted_by(from.shape.front()).empty() ||
       node.attributes.keep_dims || dims.size() != 1)) {
    fail(
        graph, node,
        operand_text(graph, from) +
            "; a reduction of each buffer takes a tensor of one dimension, made with Program::dim, "
            "by whose name the lengths of the buffers are given");
  }
  node.weak = false;
  node.dtype = from.dtype;
  node.shape.clear();
  for (int d = 0; d < rank; ++d) {
    const bool reduced = reduces(node, d);
    if (!reduced || node.attributes.keep_dims)
      node.shape.push_back(reduced ? Dim(1) : from.shape[d]);
  }
  if (node.attributes.per_buffer) node.shape = {buffers_of(from.shape.front())};
  combine_layouts(graph, node);
}

}  // namespace coconet::ir
