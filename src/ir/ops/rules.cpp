// What the typing rules share: error sentences, broadcasting, and how layouts combine.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "coconet/error.h"
#include "ir/factors.h"
#include "ir/integers.h"
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

void take_type(Node& node, const Node& from) {
  node.weak = false;
  node.dtype = from.dtype;
  node.shape = from.shape;
  node.layout = from.layout;
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
  if (dtype == DType::boolean) return true;
  // The largest i64 is no double, and rounds up to 2^63.
  return value < 0x1p63 && static_cast<double>(saturated(dtype, value)) == value;
}

void require_unscattered(const Graph& graph, const Node& node, const Shape& result) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (!from.attributes.scattered || from.shape == result) continue;
    fail(graph, node,
         operand_text(graph, from) + ", scattered over buffers, and the result would be " +
             to_string(result) + "; combine it with tensors of " + to_string(from.shape) + " only");
  }
}

void require_dim(const Graph& graph, Node& node, const Node& from, std::string_view does) {
  if (from.weak || from.attributes.scattered) {
    fail(graph, node,
         operand_text(graph, from) + "; it takes a tensor that is not scattered over buffers");
  }
  const auto rank = static_cast<int>(from.shape.size());
  int& dim = node.attributes.dim;
  if (dim < 0) dim += rank;
  if (dim >= 0 && dim < rank) return;
  fail(graph, node,
       fmt::format("{} dimension {}, but {}: it has {}, counted from 0", does, dim,
                   operand_text(graph, from), counted(from.shape.size(), "dimension")));
}

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

namespace {

/// What an operand's placement along an axis is to the result.
struct Role {
  Placement placement;  ///< the result's, were this the one operand
  bool contracted = false;
};

Role role_of(const Graph& graph, const Node& node, std::size_t index, std::size_t axis) {
  const Node& from = operand(graph, node, index);
  const Placement placement = from.layout[axis];
  if (placement.kind != Placement::Kind::sliced) return {placement};
  const Factor factor = factors_of(graph, node, index)[static_cast<std::size_t>(placement.dim)];
  if (factor.kind == Factor::Kind::repeats) {
    fail(graph, node,
         operand_text(graph, from) +
             ", but its sliced dimension has extent 1 and is broadcast; all_gather it first");
  }
  if (factor.kind == Factor::Kind::passes) return {sliced(factor.of_result)};
  // Every rank has what it finds in its slice.
  if (factor.kind == Factor::Kind::looked_up) return {local};
  // Every rank has what its slices come to: a reduction combines that of all, a matmul leaves it.
  const bool combines = node.op == Op::reduction && !node.attributes.partial;
  return {combines ? replicated : local, true};
}

/// Fails because operands `a` and `b`, which the result's layout `decided` and `placement` along an
/// axis follow from, do not combine.
[[noreturn]] void fail_combining(const Graph& graph, const Node& node, const std::string& along,
                                 Placement decided, Placement placement) {
  const bool with_local = decided == local || placement == local;
  fail(graph, node,
       along +
           (with_local ? "; values of each rank's own and slices of one tensor do not combine: "
                         "reduce_scatter the local operand or all_gather the sliced one"
            : kind_of(node.op) == OpKind::product
                ? "; every rank would get a block of the result that is a slice of two dimensions: "
                  "all_gather one of the operands"
                : "; the operands are sliced along different dimensions: all_gather one of them"));
}

Placement combined_placement(const Graph& graph, const Node& node, std::size_t axis) {
  Role result{replicated};
  const Node* decided_by = nullptr;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Node& from = operand(graph, node, i);
    if (from.weak) continue;
    const Role role = role_of(graph, node, i, axis);
    const auto along = [&] {
      return "along axis '" + graph.mesh.axes()[axis].name + "' " +
             operand_text(graph, *decided_by) + " and " + operand_text(graph, from);
    };
    if (decided_by != nullptr && role.contracted != result.contracted) {
      const Node& sliced = role.contracted ? from : *decided_by;
      const Node& whole = role.contracted ? *decided_by : from;
      fail(graph, node,
           along() + "; the contracted dimension must be sliced on both sides or on none: slice '" +
               whole.name + "' alike, or all_gather '" + sliced.name + "'");
    }
    if (decided_by == nullptr || result.placement == replicated) {
      result = role;
      if (decided_by == nullptr || role.placement != replicated) decided_by = &from;
    } else if (role.placement != replicated && role.placement != result.placement) {
      fail_combining(graph, node, along(), result.placement, role.placement);
    }
  }
  return result.placement;
}

/// Fails when operand `index` is sliced so that its part does not contain the result's: where
/// several axes slice one dimension of the result, an operand that is sliced along one of them must
/// be sliced along all that come before it in the mesh.
void require_nesting(const Graph& graph, const Node& node, std::size_t index) {
  const Node& from = operand(graph, node, index);
  if (from.weak) return;
  for (std::size_t axis = 1; axis < from.layout.size(); ++axis) {
    const Placement inner = from.layout[axis];
    if (inner.kind != Placement::Kind::sliced) continue;
    const Factor factor = factors_of(graph, node, index)[static_cast<std::size_t>(inner.dim)];
    if (factor.kind != Factor::Kind::passes) continue;
    for (std::size_t outer = 0; outer < axis; ++outer) {
      if (node.layout[outer] != sliced(factor.of_result) || from.layout[outer] == inner) continue;
      fail(graph, node,
           fmt::format("{}, but the result's dimension {} is sliced along axis '{}' first; slice "
                       "the operand along '{}' too, or all_gather it along '{}'",
                       operand_text(graph, from), factor.of_result, graph.mesh.axes()[outer].name,
                       graph.mesh.axes()[outer].name, graph.mesh.axes()[axis].name));
    }
  }
}

}  // namespace

void combine_layouts(const Graph& graph, Node& node) {
  Placements layout;
  for (std::size_t axis = 0; axis < graph.mesh.axes().size(); ++axis)
    layout.push_back(combined_placement(graph, node, axis));
  node.layout = std::move(layout);
  require_nesting(graph, node);
}

void require_nesting(const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) require_nesting(graph, node, i);
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

}  // namespace coconet::ir
