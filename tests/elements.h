// What a rank holds of a tensor, for tests that compare it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "coconet/executable.h"

namespace coconet::test {

/// The elements of `name` that this rank holds.
template <class T = float>
[[nodiscard]] std::vector<T> elements_of(Executable& step, std::string_view name) {
  std::vector<T> elements(step.count(name));
  step.read(name, elements);
  return elements;
}

[[nodiscard]] inline std::size_t count_of_whole(const Executable& step, std::string_view name) {
  std::size_t count = 1;
  for (const std::int64_t extent : step.slice_of(name).whole)
    count *= static_cast<std::size_t>(extent);
  return count;
}

/// Collective: all elements of `name`.
template <class T = float>
[[nodiscard]] std::vector<T> whole_of(Executable& step, std::string_view name) {
  std::vector<T> elements(count_of_whole(step, name));
  step.read_whole(name, elements);
  return elements;
}

}  // namespace coconet::test
