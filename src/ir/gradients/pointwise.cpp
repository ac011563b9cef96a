// The gradients of pointwise ops: those of the table's column, and those that applications define.
#include "coconet/error.h"
#include "ir/access.h"
#include "ir/custom_op.h"
#include "ir/gradients/adjoint.h"

namespace coconet::ir {

namespace {

/// Whether `value` is known when the program is written; then it is `constant`.
bool is_constant(const Value& value, double& constant) {
  if (graph_of(value) == nullptr) {
    constant = value.constant();
    return true;
  }
  const Node& node = graph_of(value)->at(id_of(value));
  constant = node.attributes.number;
  return node.op == Op::constant;
}

/// What the expressions of the table's column are written with.
struct Rules {
  const Value &r, &g;

  [[nodiscard]] Value choose(const Value& condition, const Value& x, const Value& y) const {
    if (double constant = 0; is_constant(condition, constant)) return constant != 0 ? x : y;
    if (is_number(condition) || !is_number(x) || !is_number(y)) return select(condition, x, y);
    return select(condition, x, y, r.dtype());
  }

  [[nodiscard]] Value finite(const Value& x) const {
    if (is_number(g) || is_number(x)) return x;
    const Value is_zero = equal(g, 0), ends = logical_not(isfinite(x));
    return choose(logical_and(is_zero, ends), 0, x);
  }

  /// The gradient of operand `index`; empty where it ends.
  [[nodiscard]] Value of(Op op, std::size_t index, const Value& a, const Value& b,
                         const Value& c) const;
};

#define COCONET_GRADIENT_1(x) return x
#define COCONET_GRADIENT_2(x, y) return index == 0 ? Value(x) : Value(y)
#define COCONET_GRADIENT_3(x, y, z) return index == 0 ? Value(x) : index == 1 ? Value(y) : Value(z)

Value Rules::of(Op op, std::size_t index, const Value& a, const Value& b,
                [[maybe_unused]] const Value& c) const {
  const Value none;
  switch (op) {
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients) \
  case Op::name:                                                                 \
    COCONET_GRADIENT_##arity gradients;
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
    default:
      throw InternalError("no pointwise op of the table");
  }
}

/// By the definition of an op of the application's own.
void give_defined(Adjoint& at, const CustomOp& op) {
  if (!op.definition.derivative)
    at.refuse("it has none; give its definition a derivative (coconet/custom_op.h)");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < at.node().operands.size(); ++i)
    operands.push_back(widened(at.operand(i)));
  const std::vector<Value> gradients =
      op.definition.derivative(operands, widened(at.result()), widened(at.whole()));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (at.wants(i) && !gradients[i].is_empty()) at.give_broadcast(i, gradients[i]);
  }
}

}  // namespace

void adjoint_pointwise(Adjoint& at) {
  if (const CustomOp* const op = find_custom(at.node().op)) return give_defined(at, *op);
  std::vector<Value> operands(3);
  const std::size_t count = at.node().operands.size();
  for (std::size_t i = 0; i < count; ++i) operands[i] = widened(at.operand(i));
  const Value result = widened(at.result()), gradient = widened(at.gradient());
  for (std::size_t i = 0; i < count; ++i) {
    if (!at.wants(i)) continue;
    const Value given =
        Rules{result, gradient}.of(at.node().op, i, operands[0], operands[1], operands[2]);
    if (!given.is_empty()) at.give_broadcast(i, given);
  }
}

}  // namespace coconet::ir
