// Reads the letters of a contraction.
#include "ir/letters.h"

#include <algorithm>

#include "coconet/error.h"

namespace coconet::ir {

std::string Letters::contracted() const {
  std::string shared;
  for (const char letter : a) {
    if (b.find(letter) != std::string::npos && result.find(letter) == std::string::npos)
      shared += letter;
  }
  return shared;
}

std::optional<Letters> parse_letters(std::string_view text) {
  std::string packed;
  std::ranges::copy_if(text, std::back_inserter(packed), [](char c) { return c != ' '; });
  const std::size_t comma = packed.find(','), arrow = packed.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return {};
  const Letters letters{packed.substr(0, comma), packed.substr(comma + 1, arrow - comma - 1),
                        packed.substr(arrow + 2)};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (const std::string* const one : {&letters.a, &letters.b, &letters.result}) {
    if (!std::ranges::all_of(*one, is_letter)) return {};
  }
  return letters;
}

Letters letters_in(std::string_view text) {
  const std::optional<Letters> letters = parse_letters(text);
  if (!letters) throw InternalError("'" + std::string(text) + "' are no letters of a contraction");
  return *letters;
}

}  // namespace coconet::ir
