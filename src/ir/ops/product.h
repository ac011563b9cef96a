// What the rules of products of matrices share.
#pragma once

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

/// Fails where an operand is no tensor of floats, or they differ in dtype.
void require_floats(const Graph& graph, const Node& node);

/// Fails where ranks have gradients of their own and operand `index` is sliced: what one computes
/// of its own and of its slice is a part of nothing that all have.
void require_alike(const Adjoint& at, const Value& gradient, std::size_t index);

}  // namespace coconet::ir
