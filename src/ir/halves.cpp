// An f32 as two halves of 16 bits.
#include "ir/halves.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace coconet::ir {

namespace {

std::uint32_t bits_of(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

}  // namespace

double upper_half(double value) {
  if (std::isnan(value)) return value;
  return std::bit_cast<float>((bits_of(value) + 0x8000U) & 0xffff0000U);
}

double lower_half(double value) {
  return static_cast<std::int16_t>(bits_of(value) & 0xffffU);
}

double join_halves(double upper, double lower) {
  if (std::isnan(upper)) return upper;
  const std::uint32_t rounded_away = lower < 0 ? 0x10000U : 0;
  const auto low = static_cast<std::uint16_t>(static_cast<std::int16_t>(lower));
  return std::bit_cast<float>((bits_of(upper) - rounded_away) | low);
}

}  // namespace coconet::ir
