// Typing rules of ops without operands: constant, scalar, extent, input and state.
#include <fmt/format.h>

#include <algorithm>

#include "ir/gradients/adjoint.h"
#include "ir/lists.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void require_known(const Graph& graph, const Node& node, const Dim& dim) {
  if (dim.symbolic()) {
    const std::string_view listed = counted_by(dim);
    const Dim known = listed.empty() ? dim : Dim(std::string(listed), 0);
    if (std::ranges::find(graph.dims, known) == graph.dims.end()) {
      fail(graph, node, "dimension '" + known.name + "' is unknown; make it with Program::dim");
    }
  } else if (dim.extent < 1) {
    fail(graph, node,
         fmt::format("has a dimension of extent {}; it must be at least 1", dim.extent));
  }
}

namespace {

void check_tensor(const Graph& graph, const Node& node) {
  for (const Dim& dim : node.shape) require_known(graph, node, dim);
  if (node.layout.size() != graph.mesh.axes().size()) {
    fail(graph, node,
         "has " + counted(node.layout.size(), "placement") + "; the mesh " + graph.mesh.str() +
             " needs one per axis");
  }
  for (std::size_t axis = 0; axis < node.layout.size(); ++axis) {
    const Placement& placement = node.layout[axis];
    if (placement.kind == Placement::Kind::sliced &&
        (placement.dim < 0 || placement.dim >= static_cast<int>(node.shape.size()))) {
      fail(graph, node,
           fmt::format("is sliced({}) along axis '{}', but its shape {} has {}, counted from 0",
                       placement.dim, graph.mesh.axes()[axis].name, to_string(node.shape),
                       counted(node.shape.size(), "dimension")));
    }
  }
}

/// One dimension, whose extent is the sum of the buffers' lengths, and all of them on every rank.
void check_scattered(const Graph& graph, const Node& node) {
  if (node.shape.size() != 1 || !node.shape.front().symbolic()) {
    fail(graph, node,
         "is scattered over buffers and has the shape " + to_string(node.shape) +
             "; it must have one dimension, made with Program::dim, by whose name the lengths of "
             "the buffers are given");
  }
  if (std::ranges::find(node.layout, sliced(0)) != node.layout.end()) {
    fail(graph, node,
         fmt::format("is scattered over buffers and {}; a rank's slice is one buffer of its own, "
                     "so make it an ordinary {}",
                     to_string(node.layout, graph.mesh), to_string(node.op)));
  }
}

}  // namespace

void infer_constant(const Graph& graph, Node& node) {
  make_number(graph, node);
}

void infer_scalar(const Graph& graph, Node& node) {
  make_number(graph, node);
}

void infer_extent(const Graph& graph, Node& node) {
  require_known(graph, node, node.attributes.extent);
  make_number(graph, node);
}

void infer_input(const Graph& graph, Node& node) {
  check_tensor(graph, node);
  if (node.attributes.scattered) check_scattered(graph, node);
}

void infer_state(const Graph& graph, Node& node) {
  infer_input(graph, node);
}

// Nothing comes before them.
void adjoint_constant(Adjoint& /*at*/) {}
void adjoint_scalar(Adjoint& /*at*/) {}
void adjoint_extent(Adjoint& /*at*/) {}
void adjoint_input(Adjoint& /*at*/) {}
void adjoint_state(Adjoint& /*at*/) {}

}  // namespace coconet::ir
