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
#define COCONET_POINTWISE(name, ...) name,
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
};

/// The column `kind` of ops.def.
enum class OpKind : std::uint8_t {
  number,
  given,
  write,
  compute,
  move,
  lookup,
  view,
  gather,
  reduction,
  product,
  collective
};
[[nodiscard]] constexpr OpKind kind_of(Op op) {
  switch (op) {
#define COCONET_STRUCTURAL(name, kind, ...) \
  case Op::name:                            \
    return OpKind::kind;
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
    default:
      return OpKind::compute;  // pointwise
  }
}

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
  return kind_of(op) == OpKind::given;
}
/// What the application gives by name.
[[nodiscard]] constexpr bool is_given(Op op) {
  return states_type(op) || op == Op::scalar;
}
/// Structural ops that compute element by element what the element's random word decides.
[[nodiscard]] constexpr bool draws_random(Op op) {
  return op == Op::dropout || op == Op::stochastic_cast;
}
/// Read where its operand is in memory, by the kernel that needs it.
[[nodiscard]] constexpr bool is_view(Op op) {
  return kind_of(op) == OpKind::view;
}
/// Reads its first operand where it is in memory, at other places than those of its elements.
[[nodiscard]] constexpr bool is_gather(Op op) {
  return kind_of(op) == OpKind::gather;
}
/// Has elements of its operand, as they are.
[[nodiscard]] constexpr bool hands_on(Op op) {
  return kind_of(op) == OpKind::move || kind_of(op) == OpKind::lookup || is_view(op) ||
         is_gather(op);
}
/// Computed element by element.
[[nodiscard]] constexpr bool is_elementwise(Op op) {
  return kind_of(op) == OpKind::compute || hands_on(op);
}
/// Moves data between ranks.
[[nodiscard]] constexpr bool is_collective(Op op) {
  return kind_of(op) == OpKind::collective;
}
/// Takes its first operand from memory alone, and all but a gather the others, too: no kernel
/// computes them where they are read.
[[nodiscard]] constexpr bool reads_memory(Op op) {
  return kind_of(op) == OpKind::lookup || is_view(op) || is_gather(op) ||
         kind_of(op) == OpKind::product || is_collective(op);
}
/// A collective that combines the values of several ranks, by a reduction.
[[nodiscard]] constexpr bool reduces_over_ranks(Op op) {
  return op == Op::all_reduce || op == Op::reduce_scatter || op == Op::reduce;
}

}  // namespace coconet::ir
