// The beginning of safetensors files.
#include "jit/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "jit/cache/little_endian.h"
#include "jit/checkpoint/json_scanner.h"

namespace coconet::jit {
namespace {

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr Name names[] = {{DType::f64, "F64"},     {DType::f32, "F32"}, {DType::f16, "F16"},
                          {DType::bf16, "BF16"},   {DType::i64, "I64"}, {DType::i32, "I32"},
                          {DType::i16, "I16"},     {DType::i8, "I8"},   {DType::u8, "U8"},
                          {DType::boolean, "BOOL"}};
static_assert(std::size(names) == std::size(all_dtypes));

}  // namespace

std::string_view safetensors_name(DType dtype) {
  return std::ranges::find(names, dtype, &Name::dtype)->text;
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  const auto* const found = std::ranges::find(names, name, &Name::text);
  if (found == std::end(names)) return std::nullopt;
  return found->dtype;
}

std::string safetensors_start(std::span<const FileTensor> tensors) {
  std::string header =
      fmt::format(R"({{"{}":{{"format":"coconet-checkpoint","version":"1"}})", reserved_name);
  std::uint64_t at = 0;
  for (const FileTensor& tensor : tensors) {
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          json_string(tensor.name), safetensors_name(tensor.dtype),
                          fmt::join(tensor.shape, ","), at, at + tensor.bytes());
    at += tensor.bytes();
  }
  header += '}';
  constexpr std::size_t length_bytes = sizeof(std::uint64_t);
  const std::size_t bytes =
      (length_bytes + header.size() + data_alignment - 1) / data_alignment * data_alignment;
  header.resize(bytes - length_bytes, ' ');
  std::string start;
  append_little_endian(start, std::uint64_t{header.size()});
  return start + header;
}

}  // namespace coconet::jit
