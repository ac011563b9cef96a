// Integers in the reference, where elements are doubles: conversion, which saturates, and
// arithmetic, which wraps around.
#pragma once

#include <cstdint>
#include <limits>

#include "coconet/dtype.h"

namespace coconet::ir {

/// `value` toward zero, within T's limits; 0 of NaN.
template <class T>
[[nodiscard]] constexpr T saturated(double value) {
  using Limits = std::numeric_limits<T>;
  if (value != value) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  // 2^63 where T is i64, whose largest is no double.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

/// `value` as an integer of `dtype`, clamped to its range; 0 for NaN.
[[nodiscard]] std::int64_t saturated(DType dtype, double value);

/// The integer `dtype` of these low bits.
[[nodiscard]] std::int64_t wrapped(DType dtype, std::uint64_t bits);

/// The integer `dtype` of a whole number's low bits; saturated beyond 64 bits, where they are lost.
[[nodiscard]] std::int64_t wrapped(DType dtype, double value);

/// The bits of a whole number that an element of integers holds.
[[nodiscard]] constexpr std::uint64_t bits_of_integer(double value) {
  return static_cast<std::uint64_t>(saturated<std::int64_t>(value));
}

}  // namespace coconet::ir
