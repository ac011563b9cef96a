// Integers of the dtypes: conversion of a double, and the low bits of a result.
#include "ir/integers.h"

namespace coconet::ir {

namespace {

/// `convert` of a T for the integer type of `dtype`.
template <class Convert>
std::int64_t as_integer(DType dtype, const Convert& convert) {
  switch (dtype) {
    case DType::i32:
      return convert(std::int32_t{});
    case DType::i16:
      return convert(std::int16_t{});
    case DType::i8:
      return convert(std::int8_t{});
    case DType::u8:
      return convert(std::uint8_t{});
    default:
      return convert(std::int64_t{});
  }
}

}  // namespace

std::int64_t saturated(DType dtype, double value) {
  return as_integer(dtype, [&]<class T>(T) { return saturated<T>(value); });
}

std::int64_t wrapped(DType dtype, std::uint64_t bits) {
  return as_integer(dtype, [&]<class T>(T) { return static_cast<T>(bits); });
}

std::int64_t wrapped(DType dtype, double value) {
  const bool fits = value > -0x1p63 && value < 0x1p63;
  return fits ? wrapped(dtype, bits_of_integer(value)) : saturated(dtype, value);
}

}  // namespace coconet::ir
