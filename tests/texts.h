// How often a text has a part.
#pragma once

#include <string_view>

namespace coconet::test {

[[nodiscard]] inline int count_of(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

}  // namespace coconet::test
