// Letters and digits of names in generated text: ASCII's, whatever locale the application has set.
#pragma once

namespace coconet::ir {

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
/// What identifiers are made of.
[[nodiscard]] constexpr bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

}  // namespace coconet::ir
