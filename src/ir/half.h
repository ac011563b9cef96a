// Conversions of 16-bit floats for loops over arrays: without branches and calls, so that compilers
// make vector code of them.
#pragma once

#include <bit>
#include <cstdint>

#include "coconet/dtype.h"

namespace coconet::ir {

inline float widened(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

inline float widened(Half x) {
  const std::uint32_t magnitude = (x.bits & 0x7fffU) << 13;
  constexpr float bias = 0x1p112F;  // the exponents' biases differ by that, exactly
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * bias);
  // All bits of the exponent for infinity and NaN, by the sign of what a subtraction leaves.
  const std::uint32_t special =
      static_cast<std::uint32_t>(static_cast<std::int32_t>(magnitude + 0x70800000U) >> 31) &
      0x7f800000U;
  return std::bit_cast<float>(scaled | special | (x.bits & 0x8000U) << 16);
}

/// Rounded to nearest, ties to even.
template <class T>
T narrowed(float x);

template <>
inline BFloat16 narrowed<BFloat16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet_nan = bits >> 16 | 0x40U;
  BFloat16 result;
  result.bits =
      static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
  return result;
}

template <>
inline Half narrowed<Half>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xc8000fffU + (magnitude >> 13 & 1U)) >> 13;
  // Adding 0.5 aligns a subnormal's last bit with the float's: the addition itself rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  Half result;
  result.bits = static_cast<std::uint16_t>((bits >> 16 & 0x8000U) |
                                           (magnitude >= 0x477ff000U ? special : finite));
  return result;
}

}  // namespace coconet::ir
