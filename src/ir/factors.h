// Factors: which dimension of an op's result each dimension of its operands becomes. Layouts of
// results, the reference's indices, matrices on a rank, legality of reorder, where kernels read and
// the cost model's bytes follow from them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace coconet::ir {

/// What one dimension of an operand is to an op.
struct Factor {
  enum class Kind : std::uint8_t {
    passes,      ///< the result's dimension `of_result`: its index i is `begin` + i * `step` here
    repeats,     ///< of extent 1: read at each index of dimension `of_result`
    contracted,  ///< combined: the result has none, or one of extent 1
    indexed,     ///< of buffers: each is read where elements of dimension `of_result` lie in it
    looked_up,   ///< read at indices that are computed
    regrouped,   ///< with dimensions beside it, as others of the result
  };
  Kind kind = Kind::passes;
  int of_result = -1;  ///< -1: the result has none
  int term = 0;  ///< of contracted ones of two operands: those of the same number are paired, and
                 ///< the last number varies fastest
  std::int64_t begin = 0, step = 1;  ///< of a window
};
/// By dimension of an operand.
using Factors = std::vector<Factor>;

/// Of operand `index` of `node`, of which the shape is known. An op without rules of its own takes
/// operands that are aligned at the right with its result.
[[nodiscard]] Factors factors_of(const Graph& graph, const Node& node, std::size_t index);
/// Of a tensor of shape `own` that an elementwise op of shape `result` reads, or a kernel that goes
/// over that: dimensions of extent 1 that `result` has none for repeat, too.
[[nodiscard]] Factors aligned(const Shape& own, const Shape& result);

/// Of the operand of view `view`, by dimension of what reads the view: an elementwise op of shape
/// `result`, or a kernel that goes over that.
[[nodiscard]] Factors factors_through(const Graph& graph, const Node& view, const Shape& result);

/// The factors of a reshape from `own` to `result`: dimensions that are the same on both sides
/// pass, those between them are regrouped. Nothing where the elements are not as many, as far as
/// that is known: symbols are, where both sides have them.
[[nodiscard]] std::optional<Factors> factors_of_reshape(const Shape& own, const Shape& result);

/// Whether `reader` reads `operand` where it is in memory, at other places than those of its own
/// elements: a view, or a gather of its first operand.
[[nodiscard]] inline bool reads_elsewhere(const Node& reader, ValueId operand) {
  return is_view(reader.op) || (is_gather(reader.op) && reader.operands.front() == operand);
}

/// Whether reduction `node` combines along dimension `dim` of its operand.
[[nodiscard]] bool reduces(const Node& node, int dim);
/// The dimensions of an operand that are contracted, in the order of their terms.
[[nodiscard]] std::vector<std::size_t> contracted_dims(const Factors& factors);
/// The last two dimensions of an operand of a matmul; all before them are batch dimensions.
struct MatmulDims {
  int contracted = 0;  ///< K
  int kept = 0;        ///< M of the left operand, N of the right one
};
[[nodiscard]] MatmulDims matmul_dims(const Graph& graph, const Node& node, std::size_t index);

}  // namespace coconet::ir
