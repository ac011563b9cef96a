// What a walk has appended, written again as it should stand in the program.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace coconet::ir {

/// Replaces what has been appended to `graph` from the value `first` on by what `results` need of
/// it, without products with 1, and returns where the results are then. The order follows from
/// `roots`, which are written one after another, each behind its operands from left to right:
/// compilers may evaluate the operands of an expression in either order, and a program must be the
/// same whoever compiled the library.
[[nodiscard]] std::vector<ValueId> rewrite_from(Graph& graph, ValueId first,
                                                const std::vector<ValueId>& roots,
                                                const std::vector<ValueId>& results);

}  // namespace coconet::ir
