// The letters of a contraction, "bsh,hnd->bsnd": one for each dimension of two operands and the
// result.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace coconet::ir {

/// See the head of the file. A letter of both operands and the result is of a batch, one of both
/// operands is contracted, and one of an operand and the result is kept.
struct Letters {
  std::string a, b, result;

  [[nodiscard]] std::string str() const { return a + "," + b + "->" + result; }
  /// The letters of operand `index`, 0 or 1.
  [[nodiscard]] const std::string& of(std::size_t index) const { return index == 0 ? a : b; }
  /// Those of the left operand that are contracted, in its order.
  [[nodiscard]] std::string contracted() const;
};

/// What `text` has, without blanks; nothing where it has not this form.
[[nodiscard]] std::optional<Letters> parse_letters(std::string_view text);
/// Of text that has it. Throws InternalError.
[[nodiscard]] Letters letters_in(std::string_view text);

}  // namespace coconet::ir
