// The typing rule of copy: a state's value from before the step, in memory of its own. Lowering
// makes copies.
#include <fmt/format.h>

#include "ir/gradients/adjoint.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_copy(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.op != Op::state) {
    fail(graph, node,
         fmt::format(
             "'{}' is no state but {}; only states change within a step, other values need no copy",
             from.name, to_string(from.op)));
  }
  take_type(node, from);
}

void adjoint_copy(Adjoint& at) {
  at.refuse("lowering makes copies, and gradients come before it");
}

}  // namespace coconet::ir
