// The op codes and the facts about each op that its table row states.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "coconet/custom_op.h"
#include "coconet/export.h"

namespace coconet::ir {

/// Codes above those of the tables are of ops that the process has defined, in order: they differ
/// between processes, and belong neither in files nor in messages.
enum class Op : std::uint16_t {
#define COCONET_STRUCTURAL(name, ...) name,
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference) name,
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
};

using coconet::DTypeRule;

/// One row of include/coconet/pointwise.def, or what stands for one: an op that the process has
/// defined.
struct PointwiseRow {
  Op op;
  std::string_view name;
  int arity;
  DTypeRule rule;
  int cost;                                           ///< of an element, beside an addition
  std::string_view device;                            ///< dialect text over a, b, c
  double (*reference)(double a, double b, double c);  ///< the meaning, in double
};

/// All rows of the table, in its order.
[[nodiscard]] std::span<const PointwiseRow> pointwise_table();
/// The first code after those of the tables.
[[nodiscard]] Op first_custom();
/// The row of `op`, or null when it is structural.
[[nodiscard]] const PointwiseRow* find_pointwise(Op op);

[[nodiscard]] COCONET_API std::string_view to_string(Op op);
[[nodiscard]] std::optional<Op> parse_op(std::string_view name);
[[nodiscard]] int arity(Op op);
/// The names of the attributes of `op`, rows of attributes.def, as its own row lists them.
[[nodiscard]] std::vector<std::string_view> attribute_keys(Op op);

[[nodiscard]] inline bool is_pointwise(Op op) {
  return find_pointwise(op) != nullptr;
}
/// An op whose dtype, shape and layout are stated, not inferred.
[[nodiscard]] constexpr bool states_type(Op op) {
  return op == Op::input || op == Op::state;
}
/// What the application gives by name.
[[nodiscard]] constexpr bool is_given(Op op) {
  return states_type(op) || op == Op::scalar;
}
/// Structural ops that compute element by element what the element's random word decides.
[[nodiscard]] constexpr bool draws_random(Op op) {
  return op == Op::dropout || op == Op::stochastic_cast;
}
/// Pointwise, or structural from cast to repeat: computed element by element, from operands of
/// broadcastable shapes or, by repeat, from one that has an element for each buffer.
[[nodiscard]] inline bool is_elementwise(Op op) {
  return (op >= Op::cast && op <= Op::repeat) || is_pointwise(op);
}
/// Moves data between ranks: the last rows of ops.def.
[[nodiscard]] constexpr bool is_collective(Op op) {
  return op >= Op::all_reduce && op <= Op::send;
}
/// A collective that combines the values of several ranks, by a reduction.
[[nodiscard]] constexpr bool reduces_over_ranks(Op op) {
  return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce;
}

}  // namespace coconet::ir
