// Element types: the enumeration, its names and sizes, and host storage for the 16-bit floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "coconet/export.h"

namespace coconet {

/// Element type of a tensor. `boolean` is stored in one byte, 0 or 1.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

inline constexpr DType f64 = DType::f64;          ///< IEEE 754 binary64, double
inline constexpr DType f32 = DType::f32;          ///< IEEE 754 binary32, float
inline constexpr DType f16 = DType::f16;          ///< IEEE 754 binary16
inline constexpr DType bf16 = DType::bf16;        ///< the upper half of a binary32
inline constexpr DType i64 = DType::i64;          ///< 64 bits, signed
inline constexpr DType i32 = DType::i32;          ///< 32 bits, signed
inline constexpr DType i16 = DType::i16;          ///< 16 bits, signed
inline constexpr DType i8 = DType::i8;            ///< 8 bits, signed
inline constexpr DType u8 = DType::u8;            ///< 8 bits, unsigned
inline constexpr DType boolean = DType::boolean;  ///< one byte, 0 or 1

/// All of them, in the order of the enumeration.
inline constexpr DType all_dtypes[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean};

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

/// True for f64, f32, f16 and bf16.
[[nodiscard]] constexpr bool is_float(DType dtype) {
  return dtype <= DType::bf16;
}

/// True for f16 and bf16, which compute in f32.
[[nodiscard]] constexpr bool is_16_bit(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

/// True for i64, i32, i16, i8 and u8.
[[nodiscard]] constexpr bool is_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::u8;
}

/// "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8" or "bool".
[[nodiscard]] COCONET_API std::string_view to_string(DType dtype);

/// The inverse of `to_string`; nothing when the text names no dtype.
[[nodiscard]] COCONET_API std::optional<DType> parse_dtype(std::string_view text);

/// IEEE 754 binary16 storage. Conversions round to nearest, ties to even.
struct Half {
  std::uint16_t bits = 0;  ///< sign, 5 of exponent, 10 of fraction
  /// Zero.
  Half() = default;
  /// The nearest to `value`.
  COCONET_API explicit Half(double value);
  /// Exactly this value.
  COCONET_API explicit operator float() const;
};

/// bfloat16 storage: the upper half of a binary32. Conversions round to nearest, ties to even.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< sign, 8 of exponent, 7 of fraction
  /// Zero.
  BFloat16() = default;
  /// The nearest to `value`.
  COCONET_API explicit BFloat16(double value);
  /// Exactly this value.
  COCONET_API explicit operator float() const;
};

/// Converts arrays of as many elements, rounded to nearest, ties to even; vectorized. Throws
/// BackendError when `to` has not the length of `from`.
COCONET_API void convert(std::span<const float> from, std::span<Half> to);
/// @copydoc convert
COCONET_API void convert(std::span<const float> from, std::span<BFloat16> to);
/// @copydoc convert
COCONET_API void convert(std::span<const Half> from, std::span<float> to);
/// @copydoc convert
COCONET_API void convert(std::span<const BFloat16> from, std::span<float> to);

/// `value` rounded once to what `dtype` can hold, as `cast` converts it.
[[nodiscard]] COCONET_API double round_to(DType dtype, double value);

/// Reads element `index` of an array of `dtype` as a double.
[[nodiscard]] COCONET_API double load_element(DType dtype, const void* data, std::size_t index);

/// Writes `value`, rounded to `dtype`, to element `index` of an array of `dtype`.
COCONET_API void store_element(DType dtype, void* data, std::size_t index, double value);

/// The DType of a C++ element type; `bool` must be one byte.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no coconet dtype for this C++ type");
  return DType::f32;
}();
/// @cond specialisations
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
/// @endcond

}  // namespace coconet
