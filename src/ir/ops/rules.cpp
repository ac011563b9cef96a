// What the typing rules share: error sentences, broadcasting, and how layouts combine.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "coconet/error.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void fail(const Graph& graph, const Node& node, const std::string& message) {
  throw ProgramError(fmt::format("in program '{}', '{}' ({}): {}", graph.name, node.name,
                                 to_string(node.op), message));
}

void make_number(const Graph& graph, Node& node) {
  node.weak = true;
  node.dtype = DType::f64;
  node.shape.clear();
  node.layout.assign(graph.mesh.axes().size(), replicated);
}

const Node& operand(const Graph& graph, const Node& node, std::size_t index) {
  return graph.at(node.operands.at(index));
}

std::string operand_text(const Graph& graph, const Node& operand) {
  if (operand.weak) return "'" + operand.name + "' is a number";
  return fmt::format("'{}' is {}{} {}", operand.name, to_string(operand.dtype),
                     to_string(operand.shape), to_string(operand.layout, graph.mesh));
}

std::string counted(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, (count == 1 ? "" : "s"));
}

bool number_fits(const Node& number, DType dtype) {
  if (is_float(dtype)) return true;
  const double value = number.attributes.number;
  if (number.op != Op::constant || std::floor(value) != value) return false;
  switch (dtype) {
    case DType::i64:
      return value >= -0x1p63 && value < 0x1p63;
    case DType::i32:
      return value >= -2147483648.0 && value <= 2147483647.0;
    case DType::i16:
      return value >= -32768 && value <= 32767;
    case DType::i8:
      return value >= -128 && value <= 127;
    case DType::u8:
      return value >= 0 && value <= 255;
    default:
      return true;
  }
}

namespace {

/// A list of buffers has no rows: what reads one has its shape, or is a reduction of it.
void require_unscattered(const Graph& graph, const Node& node, const Shape& result) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (!from.attributes.scattered || from.shape == result) continue;
    fail(graph, node,
         operand_text(graph, from) + ", scattered over buffers, and the result would be " +
             to_string(result) + "; combine it with tensors of " + to_string(from.shape) + " only");
  }
}

}  // namespace

Shape broadcast_shapes(const Graph& graph, const Node& node) {
  Shape result;
  const Node* widest = nullptr;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (from.weak) continue;
    const Shape& shape = from.shape;
    if (shape.size() > result.size()) {
      result.insert(result.begin(), shape.size() - result.size(), Dim(1));
    }
    const std::size_t shift = result.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Dim& have = result[d + shift];
      if (have == Dim(1)) {
        have = shape[d];
      } else if (!(shape[d] == have) && !(shape[d] == Dim(1))) {
        fail(graph, node,
             "the shapes do not broadcast: " + operand_text(graph, *widest) + " and " +
                 operand_text(graph, from) +
                 "; dimensions counted from the right must be the same or 1");
      }
    }
    if (widest == nullptr || shape.size() >= widest->shape.size()) widest = &from;
  }
  require_unscattered(graph, node, result);
  return result;
}

Placements combine_layouts(const Graph& graph, const Node& node) {
  const Shape shape = node.shape;
  Placements result(graph.mesh.axes().size(), replicated);
  for (std::size_t axis = 0; axis < result.size(); ++axis) {
    const std::string& axis_name = graph.mesh.axes()[axis].name;
    const Node* decided_by = nullptr;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Node& from = operand(graph, node, i);
      if (from.weak) continue;
      Placement placement = from.layout[axis];
      if (placement.kind == Placement::Kind::replicated) continue;
      if (placement.kind == Placement::Kind::sliced) {
        const int shift = static_cast<int>(shape.size() - from.shape.size());
        const int own = placement.dim;
        if (from.shape[own] == Dim(1) && !(shape[own + shift] == Dim(1))) {
          fail(graph, node,
               operand_text(graph, from) +
                   ", but its sliced dimension has extent 1 and is broadcast; " +
                   "all_gather it first");
        }
        placement.dim += shift;
      }
      if (decided_by == nullptr) {
        result[axis] = placement;
        decided_by = &from;
      } else if (!(result[axis] == placement)) {
        const bool with_local =
            result[axis].kind == Placement::Kind::local || placement.kind == Placement::Kind::local;
        fail(graph, node,
             "along axis '" + axis_name + "' " + operand_text(graph, *decided_by) + " and " +
                 operand_text(graph, from) +
                 (with_local
                      ? "; values of each rank's own and slices of one tensor do not combine: "
                        "reduce_scatter the local operand or all_gather the sliced one"
                      : "; the operands are sliced along different dimensions: all_gather one of "
                        "them"));
      }
    }
  }
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (!from.weak) require_nesting(graph, node, from, result, shape.size());
  }
  return result;
}

namespace {

/// The last axis after the node's that slices dimension `dim` of `from`, or -1.
int inner_axis(const Node& node, const Node& from, int dim) {
  int last = -1;
  for (int axis = node.attributes.axis + 1; axis < std::ssize(from.layout); ++axis) {
    if (from.layout[axis] == sliced(dim)) last = axis;
  }
  return last;
}

}  // namespace

void require_sliceable(const Graph& graph, const Node& node, const Node& from, int dim) {
  if (dim < 0 || dim >= static_cast<int>(from.shape.size())) {
    fail(graph, node,
         fmt::format("slices dimension {}, but {}: it has {}, counted from 0", dim,
                     operand_text(graph, from), counted(from.shape.size(), "dimension")));
  }
  const int inner = inner_axis(node, from, dim);
  if (inner < 0) return;
  const auto& axes = graph.mesh.axes();
  fail(graph, node,
       fmt::format(
           "{}, and slices along '{}', which comes after '{}' in the mesh, lie inside those "
           "along '{}'; slice it along '{}' before '{}', or use another dimension",
           operand_text(graph, from), axes[inner].name, axes[node.attributes.axis].name,
           axes[node.attributes.axis].name, axes[node.attributes.axis].name, axes[inner].name));
}

void require_gatherable(const Graph& graph, const Node& node, const Node& from, int dim) {
  const int inner = inner_axis(node, from, dim);
  if (inner < 0) return;
  const auto& axes = graph.mesh.axes();
  fail(
      graph, node,
      fmt::format("{}, and slices along '{}', which comes after '{}' in the mesh, lie inside those "
                  "along '{}'; all_gather it along '{}' first",
                  operand_text(graph, from), axes[inner].name, axes[node.attributes.axis].name,
                  axes[node.attributes.axis].name, axes[inner].name));
}

void require_nesting(const Graph& graph, const Node& node, const Node& from,
                     const Placements& layout, std::size_t rank) {
  const int shift = static_cast<int>(rank - from.shape.size());
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (from.layout[axis].kind != Placement::Kind::sliced) continue;
    const int dim = from.layout[axis].dim;
    for (std::size_t outer = 0; outer < axis; ++outer) {
      const bool result_sliced = layout[outer] == sliced(dim + shift);
      if (!result_sliced || from.layout[outer] == sliced(dim)) continue;
      fail(graph, node,
           fmt::format("{}, but the result's dimension {} is sliced along axis '{}' first; slice "
                       "the operand along '{}' too, or all_gather it along '{}'",
                       operand_text(graph, from), dim + shift, graph.mesh.axes()[outer].name,
                       graph.mesh.axes()[outer].name, graph.mesh.axes()[axis].name));
    }
  }
}

}  // namespace coconet::ir
