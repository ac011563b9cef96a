// Files of tensors in the format safetensors: the length of a header, 8 bytes little-endian; the
// header, JSON; and the elements. https://huggingface.co/docs/safetensors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "coconet/dtype.h"
#include "ir/extents.h"

namespace coconet::jit {

/// A tensor of a file; they follow each other without gaps.
struct FileTensor {
  std::string name;
  DType dtype = DType::f32;
  ir::Extents shape;
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(ir::product(shape)) * size_of(dtype);
  }
};

/// Where data begin is a multiple of this many bytes.
inline constexpr std::size_t data_alignment = 4096;

/// The name of a member of headers that is no tensor.
inline constexpr std::string_view reserved_name = "__metadata__";

/// All bytes before the data of a file that has `tensors`, in order.
[[nodiscard]] std::string safetensors_start(std::span<const FileTensor> tensors);

/// What safetensors calls a dtype, "F32" or "BOOL".
[[nodiscard]] std::string_view safetensors_name(DType dtype);
/// The inverse; nothing when it is none of this library's.
[[nodiscard]] std::optional<DType> safetensors_dtype(std::string_view name);

}  // namespace coconet::jit
