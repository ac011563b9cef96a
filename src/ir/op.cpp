// The op tables, read from src/ir/ops.def and include/coconet/pointwise.def. Ops that the process
// has defined continue them.
#include "ir/op.h"

#include <algorithm>
#include <cmath>

#include "ir/custom_op.h"

namespace coconet::ir {

namespace {

constexpr PointwiseRow pointwise_rows[] = {
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients)                   \
  {Op::name,                                                                                       \
   #name,                                                                                          \
   arity,                                                                                          \
   DTypeRule::rule,                                                                                \
   cost,                                                                                           \
   device,                                                                                         \
   []([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] double c) -> double { \
     return reference;                                                                             \
   }},
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
};

struct OpFacts {
  std::string_view name;
  int arity;
  std::string_view attributes;
};

// Indexed by Op, which lists the same two tables in the same order.
constexpr OpFacts op_facts[] = {
#define COCONET_STRUCTURAL(name, kind, arity, attributes, summary) {#name, arity, attributes},
#include "ir/ops.def"
#undef COCONET_STRUCTURAL
#define COCONET_POINTWISE(name, arity, rule, cost, device, reference, gradients) \
  {#name, arity, DTypeRule::rule == DTypeRule::choose ? "dtype" : ""},
#include "coconet/pointwise.def"
#undef COCONET_POINTWISE
};

constexpr std::string_view attribute_names[] = {
#define COCONET_ATTRIBUTE(name, ...) #name,
#include "ir/attributes.def"
#undef COCONET_ATTRIBUTE
};

/// The first word of `words`, which becomes the rest; blanks separate.
constexpr std::string_view take_word(std::string_view& words) {
  const std::string_view word = words.substr(0, words.find(' '));
  words.remove_prefix(std::min(words.size(), word.size() + 1));
  return word;
}

constexpr bool all_attributes_are_rows() {
  for (const OpFacts& facts : op_facts) {
    for (std::string_view rest = facts.attributes; !rest.empty();) {
      if (std::ranges::find(attribute_names, take_word(rest)) == std::end(attribute_names))
        return false;
    }
  }
  return true;
}
static_assert(all_attributes_are_rows(), "ops.def names an attribute that attributes.def lacks");

constexpr auto first_pointwise = static_cast<std::size_t>(pointwise_rows[0].op);

/// The facts of an op of the tables, or null.
const OpFacts* find_facts(Op op) {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(op_facts) ? &op_facts[index] : nullptr;
}

}  // namespace

std::span<const PointwiseRow> pointwise_table() {
  return pointwise_rows;
}

Op first_custom() {
  return static_cast<Op>(std::size(op_facts));
}

const PointwiseRow* find_pointwise(Op op) {
  const auto index = static_cast<std::size_t>(op);
  if (index < first_pointwise) return nullptr;
  if (op < first_custom()) return &pointwise_rows[index - first_pointwise];
  return &find_custom(op)->row;
}

std::string_view to_string(Op op) {
  const OpFacts* const facts = find_facts(op);
  return facts != nullptr ? facts->name : find_pointwise(op)->name;
}

std::optional<Op> parse_op(std::string_view name) {
  for (std::size_t i = 0; i < std::size(op_facts); ++i) {
    if (op_facts[i].name == name) return static_cast<Op>(i);
  }
  const CustomOp* const custom = find_custom(name);
  return custom != nullptr ? std::optional(custom->row.op) : std::nullopt;
}

int arity(Op op) {
  const OpFacts* const facts = find_facts(op);
  return facts != nullptr ? facts->arity : find_pointwise(op)->arity;
}

std::vector<std::string_view> attribute_keys(Op op) {
  const OpFacts* const facts = find_facts(op);
  std::vector<std::string_view> keys;
  for (std::string_view rest = facts != nullptr ? facts->attributes : ""; !rest.empty();)
    keys.push_back(take_word(rest));
  return keys;
}

}  // namespace coconet::ir
