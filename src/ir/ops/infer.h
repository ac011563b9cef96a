// The typing rules: one function per structural op and one for all pointwise ops. Each reads the
// operands' types from the graph, checks its rules and fills in the node's dtype, shape, layout and
// weak flag, or throws ProgramError with the rule that is broken.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace coconet::ir {

#define COCONET_STRUCTURAL(name, ...) void infer_##name(const Graph& graph, Node& node);
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
void infer_pointwise(const Graph& graph, Node& node);

/// Throws ProgramError: "in program 'adam', 'avg' (all_reduce): <message>".
[[noreturn]] void fail(const Graph& graph, const Node& node, const std::string& message);

/// Makes the node a number, which is the same on all ranks and takes the dtype of what it meets.
void make_number(const Graph& graph, Node& node);

/// Gives the node the dtype, shape and layout of `from`, a tensor.
void take_type(Node& node, const Node& from);

/// The operand at `index`.
[[nodiscard]] const Node& operand(const Graph& graph, const Node& node, std::size_t index);

/// "'w' is f32[n] replicated"
[[nodiscard]] std::string operand_text(const Graph& graph, const Node& operand);

/// "1 dimension", "2 dimensions"
[[nodiscard]] std::string counted(std::size_t count, const std::string& noun);

/// Whether a number may be combined with tensors of `dtype`: any with floats, integral constants
/// with integers.
[[nodiscard]] bool number_fits(const Node& number, DType dtype);

/// NumPy's broadcast of the shapes of the operands that are tensors. Fails naming the two that do
/// not agree, and where an operand that is scattered over buffers would be broadcast.
[[nodiscard]] Shape broadcast_shapes(const Graph& graph, const Node& node);

/// Counts the node's dimension of `from` from 0. Fails when `from` is no tensor in one buffer, or
/// has no such dimension, which the node `does`: "takes".
void require_dim(const Graph& graph, Node& node, const Node& from, std::string_view does);

/// Fails where an operand is scattered over buffers and `result` is not its shape: a list of
/// buffers has no rows, and what reads one has its shape, or is a reduction of it.
void require_unscattered(const Graph& graph, const Node& node, const Shape& result);

/// Fails when `dim` is a symbol that the program does not have, or an extent below 1.
void require_known(const Graph& graph, const Node& node, const Dim& dim);

/// Fails when the dtype of `node`, an iota, does not hold the last index of `extent`.
void require_counts(const Graph& graph, const Node& node, std::int64_t extent);

/// Sets the layout of the result, whose shape is known, to what follows from its operands and their
/// factors: per axis local if an operand is local or sliced along what is contracted, sliced if one
/// is sliced along what passes (the replicated ones are read at the global index), else replicated.
/// Fails where local meets sliced, where operands are sliced differently, where a contracted
/// dimension is sliced on one side only, where one that repeats is sliced, and as
/// `require_nesting`.
void combine_layouts(const Graph& graph, Node& node);

/// Fails when an operand is sliced so that its part does not contain the result's: where several
/// axes slice one dimension of the result, an operand that is sliced along one of them must be
/// sliced along all that come before it in the mesh.
void require_nesting(const Graph& graph, const Node& node);

/// Fails when `from` has no dimension `dim` that the node could slice along its axis. Axes that
/// slice one dimension nest in the order of the mesh: of what a later axis has sliced, a rank's
/// part holds no slice along an earlier one.
void require_sliceable(const Graph& graph, const Node& node, const Node& from, int dim);

/// Fails when an axis after the node's slices dimension `dim` of `from`, too: the slices of the
/// last axis are put together first.
void require_gatherable(const Graph& graph, const Node& node, const Node& from, int dim);

}  // namespace coconet::ir
