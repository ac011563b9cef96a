// .npy files of f32 for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "cli/npy.h"
#include "files.h"

namespace coconet::test {

[[nodiscard]] inline cli::NpyArray floats(std::vector<std::int64_t> shape,
                                          const std::vector<float>& values) {
  cli::NpyArray array{DType::f32, std::move(shape), std::vector<std::byte>(values.size() * 4)};
  std::memcpy(array.elements.data(), values.data(), array.elements.size());
  return array;
}

[[nodiscard]] inline std::vector<float> values_of(const cli::NpyArray& array) {
  std::vector<float> values(array.elements.size() / 4);
  std::memcpy(values.data(), array.elements.data(), array.elements.size());
  return values;
}

}  // namespace coconet::test
