// NumPy's .npy files: a magic, a version, a header in Python's notation, and the elements.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/dtype.h"

namespace coconet::cli {

/// An array, row-major.
struct NpyArray {
  DType dtype = DType::f32;  ///< never bf16, which NumPy has not
  std::vector<std::int64_t> shape;
  std::vector<std::byte> elements;
};

/// Throws ConfigError with the file and what is wrong in it.
[[nodiscard]] NpyArray read_npy(const std::string& file);
/// Reads the bytes of a .npy file; errors name it `file`.
[[nodiscard]] NpyArray parse_npy(std::string_view bytes, const std::string& file);
/// The bytes of a file.
[[nodiscard]] std::string npy_text(const NpyArray& array);

}  // namespace coconet::cli
