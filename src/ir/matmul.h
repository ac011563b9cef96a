// Which dimensions of its operands a matmul contracts and keeps, which typing, reference and
// execution share.
#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace coconet::ir {

/// Two of the last two dimensions of an operand; all before them are batch dimensions.
struct MatmulDims {
  int contracted = 0;  ///< K
  int kept = 0;        ///< M of the left operand, N of the right one
};

/// Of operand `index` of the matmul `node`.
[[nodiscard]] MatmulDims matmul_dims(const Graph& graph, const Node& node, std::size_t index);

}  // namespace coconet::ir
