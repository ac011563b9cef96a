// What the adjoint of an op works with: the op, the gradient of its result, and where the gradients
// of its operands go. Derivatives write values, so that a gradient is a program like any other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/composing.h"
#include "ir/graph.h"

namespace coconet::ir {

/// What has reached values so far.
struct Contributions {
  Indexed<std::vector<Value>> to;  ///< by value, to be added up
  std::vector<ValueId> in_order;   ///< all that were made, and their sums

  /// Notes that `value` was made now.
  void note(const Value& value) {
    if (graph_of(value) != nullptr) in_order.push_back(id_of(value));
  }
};

/// One value whose gradient is known. The gradient may be less than the tensor that it is the
/// gradient of: a number, or one that broadcasts to it, or replicated where the value is sliced or
/// local. Where it is local and the value is replicated, ranks have yet to add up.
class Adjoint {
 public:
  Adjoint(std::shared_ptr<Graph> graph, ValueId id, Value gradient, const Indexed<char>& depends,
          Contributions& contributions);

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] Value result() const { return value_of(id_); }
  [[nodiscard]] Value operand(std::size_t index) const { return value_of(node_.operands[index]); }
  [[nodiscard]] const Value& gradient() const { return gradient_; }
  /// The gradient in the shape of the result, and sliced where that is; also local, where that is.
  [[nodiscard]] Value whole() const;
  [[nodiscard]] Value whole_and_own() const;

  /// Whether the gradient of operand `index` is asked for, or leads to one that is.
  [[nodiscard]] bool wants(std::size_t index) const { return depends_[node_.operands[index]] != 0; }
  /// Gives the operand at `index` a contribution, which has its dimensions or broadcasts to them:
  /// those before them, and those in which the operand has extent 1, are summed over.
  void give(std::size_t index, Value contribution);
  /// The same of a contribution to an operand that the op broadcasts to its result: it has the
  /// result's dimensions or broadcasts to them.
  void give_broadcast(std::size_t index, Value contribution);

  /// The ranks along the op's mesh axis, and its name.
  [[nodiscard]] int ranks() const;
  [[nodiscard]] const std::string& axis() const;
  [[nodiscard]] bool is_sliced(const Value& value) const;

  /// Throws ProgramError: no gradient goes through the op, and why, or what to write instead.
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  [[nodiscard]] Value value_of(ValueId id) const { return ir::value_of(graph_, id); }

  const std::shared_ptr<Graph> graph_;
  const ValueId id_;
  const Node node_;  ///< a copy, as what is appended moves nodes
  const Value gradient_;
  const Indexed<char>& depends_;
  Contributions& contributions_;
};

/// `value`, a number or what broadcasts to `like`, with the shape of `like`, and sliced where it
/// is.
[[nodiscard]] Value whole_like(const std::shared_ptr<Graph>& graph, const Value& value,
                               const Node& like);

// One of each op, beside its typing rule: it gives each operand that wants one its contribution.
#define COCONET_STRUCTURAL(name, ...) void adjoint_##name(Adjoint& at);
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
void adjoint_pointwise(Adjoint& at);

}  // namespace coconet::ir
