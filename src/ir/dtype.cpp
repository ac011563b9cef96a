// Element types: names, the 16-bit floats in software, and elements of untyped arrays as doubles.
#include "coconet/dtype.h"

#include <bit>
#include <cstring>
#include <iterator>

#include "ir/half.h"
#include "ir/integers.h"

namespace coconet {

namespace {

// A binary float narrower than binary64: sign, then `exponent_bits`, then `fraction_bits`.
struct NarrowFormat {
  int exponent_bits;
  int fraction_bits;
};
constexpr NarrowFormat binary16{5, 10};
constexpr NarrowFormat brain16{8, 7};

// `value` in `format`, rounded to nearest even from the double's own bits. Going through float
// first would round twice: 1 + 2^-11 + 2^-40 is above the tie in binary16, but a float cannot hold
// the 2^-40 that says so.
std::uint16_t narrow(NarrowFormat format, double value) {
  constexpr int double_fraction_bits = 52;
  constexpr int double_bias = 1023;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << double_fraction_bits) - 1);
  const int exponent = static_cast<int>((bits >> double_fraction_bits) & 0x7ff);
  const std::uint64_t sign = (bits >> 63) << (format.exponent_bits + format.fraction_bits);
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1)
                                 << format.fraction_bits;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;

  const auto encode = [sign](std::uint64_t magnitude) {
    return static_cast<std::uint16_t>(sign | magnitude);
  };
  if (exponent == 0x7ff) {
    // A NaN keeps the top of its payload and is made quiet, so that it stays a NaN.
    const std::uint64_t quiet = std::uint64_t{1} << (format.fraction_bits - 1);
    const std::uint64_t payload = fraction >> (double_fraction_bits - format.fraction_bits);
    return encode(fraction == 0 ? infinity : infinity | quiet | payload);
  }
  if (exponent == 0) return encode(0);  // a subnormal double is far below the smallest narrow one

  const int narrow_exponent = exponent - double_bias + bias;
  if (narrow_exponent >= (1 << format.exponent_bits) - 1) return encode(infinity);
  int shift = double_fraction_bits - format.fraction_bits;
  if (narrow_exponent < 1) shift += 1 - narrow_exponent;  // subnormal: fewer bits are kept
  if (shift > double_fraction_bits + 1) return encode(0);

  const std::uint64_t significand = fraction | (std::uint64_t{1} << double_fraction_bits);
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t tie = std::uint64_t{1} << (shift - 1);
  std::uint64_t kept = significand >> shift;
  if (rest > tie || (rest == tie && (kept & 1) != 0)) ++kept;
  // `kept` has the leading one that a normal number hides, which is one step of the exponent field;
  // a carry out of the fraction, up to infinity, falls into place by the same addition.
  if (narrow_exponent > 1) {
    kept += static_cast<std::uint64_t>(narrow_exponent - 1) << format.fraction_bits;
  }
  return encode(kept);
}

// Arrays of applications need not be aligned for T in the compiler's eyes, so elements are copied.
template <class T>
T load(const void* data, std::size_t index) {
  T element;
  std::memcpy(&element, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return element;
}

template <class T>
void store(void* data, std::size_t index, T element) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &element, sizeof(T));
}

}  // namespace

std::string_view to_string(DType dtype) {
  constexpr std::string_view names[] = {"f64", "f32", "f16", "bf16", "i64",
                                        "i32", "i16", "i8",  "u8",   "bool"};
  static_assert(std::size(names) == std::size(all_dtypes));
  return names[static_cast<std::size_t>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (DType dtype : all_dtypes) {
    if (to_string(dtype) == text) return dtype;
  }
  return std::nullopt;
}

Half::Half(double value) : bits(narrow(binary16, value)) {}

// Exact also where the processor takes subnormal numbers for zero, unlike ir::widened.
Half::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t float_exponent = exponent == 0x1f ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (float_exponent << 23) | (fraction << 13));
}

BFloat16::BFloat16(double value) : bits(narrow(brain16, value)) {}

BFloat16::operator float() const {
  return ir::widened(*this);
}

double round_to(DType dtype, double value) {
  if (is_integer(dtype)) return static_cast<double>(ir::saturated(dtype, value));
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::f16:
      return static_cast<float>(Half(value));
    case DType::bf16:
      return static_cast<float>(BFloat16(value));
    default:
      return value != 0 ? 1 : 0;
  }
}

double load_element(DType dtype, const void* data, std::size_t index) {
  switch (dtype) {
    case DType::f64:
      return load<double>(data, index);
    case DType::f32:
      return load<float>(data, index);
    case DType::f16:
      return static_cast<float>(load<Half>(data, index));
    case DType::bf16:
      return static_cast<float>(load<BFloat16>(data, index));
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(data, index));
    case DType::i32:
      return load<std::int32_t>(data, index);
    case DType::i16:
      return load<std::int16_t>(data, index);
    case DType::i8:
      return load<std::int8_t>(data, index);
    case DType::u8:
      return load<std::uint8_t>(data, index);
    case DType::boolean:
      return load<std::uint8_t>(data, index) != 0 ? 1 : 0;
  }
  return 0;
}

void store_element(DType dtype, void* data, std::size_t index, double value) {
  switch (dtype) {
    case DType::f64:
      return store(data, index, value);
    case DType::f32:
      return store(data, index, static_cast<float>(value));
    case DType::f16:
      return store(data, index, Half(value));
    case DType::bf16:
      return store(data, index, BFloat16(value));
    case DType::i64:
      return store(data, index, ir::saturated(dtype, value));
    case DType::i32:
      return store(data, index, static_cast<std::int32_t>(ir::saturated(dtype, value)));
    case DType::i16:
      return store(data, index, static_cast<std::int16_t>(ir::saturated(dtype, value)));
    case DType::i8:
      return store(data, index, static_cast<std::int8_t>(ir::saturated(dtype, value)));
    case DType::u8:
      return store(data, index, static_cast<std::uint8_t>(ir::saturated(dtype, value)));
    case DType::boolean:
      return store(data, index, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  }
}

}  // namespace coconet
