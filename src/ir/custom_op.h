// The pointwise ops that the process has defined, beside those of the table. They are never
// removed, so that pointers to them stay right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coconet/custom_op.h"
#include "ir/op.h"

namespace coconet::ir {

struct CustomOp {
  PointwiseDefinition definition;
  std::string derivative;  ///< as `derivative_text` gives it
  PointwiseRow row;        ///< its texts are the definition's
};

/// The one with this code or name; null when there is none, also where the op is a built-in one.
[[nodiscard]] const CustomOp* find_custom(Op op);
[[nodiscard]] const CustomOp* find_custom(std::string_view name);
/// Names of all, in order of definition.
[[nodiscard]] std::vector<std::string> custom_names();

/// The definitions of those that `graph` has, by which ranks agree on what they compute: "softplus
/// (1 operand, floating): log1p_(exp_(a))"; empty when it has none.
[[nodiscard]] std::string definitions_of(const Graph& graph);

/// What is wrong with the device text of an op with `arity` operands, and what would be right: the
/// end of a sentence that begins with the text. Empty when nothing is.
[[nodiscard]] std::string device_text_problem(std::string_view text, int arity);

/// The gradients that the derivative makes of operands f32[n], as printed values, by which two
/// derivatives are compared; empty when the op has none. Throws ProgramError when one of them
/// cannot be the operand's gradient.
[[nodiscard]] std::string derivative_text(const PointwiseDefinition& definition);

}  // namespace coconet::ir
