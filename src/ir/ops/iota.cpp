// The typing rule of iota: the index along a dimension.
#include <fmt/format.h>

#include <limits>

#include "ir/gradients/adjoint.h"
#include "ir/lists.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_iota(const Graph& graph, Node& node) {
  node.dtype = node.attributes.dtype.value();
  node.shape = node.attributes.shape;
  node.layout.assign(graph.mesh.axes().size(), replicated);
  if (node.dtype != DType::i32 && node.dtype != DType::i64) {
    fail(graph, node, fmt::format("counts in {}; it counts in i32 or i64", to_string(node.dtype)));
  }
  const Dim* along = nullptr;
  for (const Dim& dim : node.shape) {
    require_known(graph, node, dim);
    if (!counted_by(dim).empty())
      fail(graph, node, "counts along " + dim.str() + "; it takes no number of buffers");
    if (dim == Dim(1)) continue;
    if (along != nullptr) {
      fail(graph, node,
           fmt::format("has the shape {}; the index along one dimension is asked for, and all "
                       "others must be 1",
                       to_string(node.shape)));
    }
    along = &dim;
  }
  if (along == nullptr || along->symbolic()) return;
  require_counts(graph, node, along->extent);
}

void require_counts(const Graph& graph, const Node& node, std::int64_t extent) {
  const bool holds = node.dtype == DType::i64 || extent - 1 <= std::numeric_limits<int>::max();
  if (!holds)
    fail(graph, node, fmt::format("counts to {}, which i32 does not hold; use i64", extent - 1));
}

// Nothing comes before it.
void adjoint_iota(Adjoint& /*at*/) {}

}  // namespace coconet::ir
