// The typing rule of copy: a state's value from before the step, in memory of its own. Lowering
// makes copies.
#include <string>

#include "ir/ops/infer.h"

namespace coconet::ir {

void infer_copy(const Graph& graph, Node& node) {
  const Node& from = operand(graph, node, 0);
  if (from.op != Op::state) {
    fail(graph, node,
         "'" + from.name + "' is no state but " + std::string(to_string(from.op)) +
             "; only states change within a step, other values need no copy");
  }
  node.weak = false;
  node.dtype = from.dtype;
  node.shape = from.shape;
  node.layout = from.layout;
}

}  // namespace coconet::ir
