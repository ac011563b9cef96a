// Appending a value to the program that its operands belong to.
#pragma once

#include <memory>
#include <vector>

#include "coconet/program.h"
#include "ir/graph.h"

namespace coconet::ir {

/// Appends `op` of `operands` to `graph`, with constants for those that are numbers; `node` has the
/// attributes, and of inputs and states all else.
Value append_value(const std::shared_ptr<Graph>& graph, Op op, const std::vector<Value>& operands,
                   Node node = {});

}  // namespace coconet::ir
