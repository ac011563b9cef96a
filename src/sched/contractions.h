// Lowering's rewrite of contractions that are no products of matrices in memory.
#pragma once

#include "ir/graph.h"

namespace coconet::sched {

/// What a contraction reads or makes is transposed, by kernels that copy, where its letters put
/// dimensions so that no library multiplies it where it is.
[[nodiscard]] ir::Graph expand_contractions(const ir::Graph& graph);

}  // namespace coconet::sched
