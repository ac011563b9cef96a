// Element types: names, rounding of the 16-bit floats, integers, and elements of untyped arrays.
#include "coconet/dtype.h"
#include "ir/half.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "refusal.h"

using namespace coconet;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T>
T from_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// Every pair of neighbours a < b of the format: the tie between them goes to the even one, and the
// doubles just below and just above the tie go to a and b.
template <class T>
void check_every_tie(unsigned infinity_bits) {
  for (unsigned bits = 0; bits + 1 < infinity_bits; ++bits) {
    const double a = static_cast<float>(from_bits<T>(bits));
    const double b = static_cast<float>(from_bits<T>(bits + 1));
    const double tie = a + (b - a) / 2;  // exact: a double has bits to spare
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    const unsigned sign = 0x8000;
    const bool right = T(a).bits == bits && T(tie).bits == even &&
                       T(std::nextafter(tie, 0)).bits == bits &&
                       T(std::nextafter(tie, infinity)).bits == bits + 1 &&
                       T(-tie).bits == (even | sign) && T(-a).bits == (bits | sign);
    if (!right) FAIL("wrong rounding between bit patterns " << bits << " and " << bits + 1);
  }
}

}  // namespace

TEST_CASE("every dtype's name reads back, and nothing else does") {
  for (const DType dtype : all_dtypes) CHECK(parse_dtype(to_string(dtype)) == dtype);
  CHECK(to_string(boolean) == "bool");
  CHECK_FALSE(parse_dtype("float").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
}

TEST_CASE("f16 rounds to nearest even between any two neighbours") {
  check_every_tie<Half>(0x7c00);
}

TEST_CASE("bf16 rounds to nearest even between any two neighbours") {
  check_every_tie<BFloat16>(0x7f80);
}

TEST_CASE("a double is rounded to f16 once, not through f32") {
  // Just above the tie between 1 and the next f16; in f32 it would land on the tie and then on the
  // even 1.
  CHECK(round_to(f16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
  CHECK(round_to(f16, 1 + 0x1p-11) == 1);
  CHECK(round_to(bf16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
}

TEST_CASE("16-bit floats overflow to infinity and underflow to zero with their sign") {
  CHECK(round_to(f16, 65504) == 65504);
  CHECK(round_to(f16, 65519.999) == 65504);
  CHECK(round_to(f16, 65520) == infinity);
  CHECK(round_to(f16, -1e300) == -infinity);
  CHECK(round_to(f16, 0x1p-24) == 0x1p-24);
  CHECK(round_to(f16, 0x1p-25) == 0);
  CHECK(round_to(f16, 0x1.00001p-25) == 0x1p-24);
  CHECK(std::signbit(round_to(f16, -0x1p-300)));
  CHECK(std::signbit(round_to(bf16, -0.0)));
  CHECK(round_to(bf16, 0x1p-1074) == 0);
  CHECK(round_to(bf16, 3.4e38) == infinity);
}

TEST_CASE("not-a-number stays one in every float dtype") {
  for (const DType dtype : {f64, f32, f16, bf16}) CHECK(std::isnan(round_to(dtype, not_a_number)));
  CHECK(std::isnan(static_cast<float>(Half(not_a_number))));
  CHECK(round_to(f16, infinity) == infinity);
  CHECK(round_to(bf16, -infinity) == -infinity);
}

TEST_CASE("a float goes toward zero to an integer, within its limits, and not-a-number to zero") {
  CHECK(round_to(i32, 2.9) == 2);
  CHECK(round_to(i32, -2.9) == -2);
  CHECK(round_to(i8, 127.9) == 127);
  CHECK(round_to(i8, 128) == 127);
  CHECK(round_to(i8, -128.9) == -128);
  CHECK(round_to(i8, -129) == -128);
  CHECK(round_to(i16, 32768) == 32767);
  CHECK(round_to(i16, -1e9) == -32768);
  CHECK(round_to(u8, 256 + 7) == 255);
  CHECK(round_to(u8, -0.9) == 0);
  CHECK(round_to(u8, -1) == 0);
  CHECK(round_to(i32, 0x1p31) == 0x1p31 - 1);
  CHECK(round_to(i32, 1e30) == 0x1p31 - 1);
  CHECK(round_to(i32, -infinity) == -0x1p31);
  CHECK(round_to(i64, 1e15 + 0.5) == 1e15);
  CHECK(round_to(i64, 0x1.fffffffffffffp62) == 0x1.fffffffffffffp62);
  CHECK(round_to(i64, -infinity) == -0x1p63);
  CHECK(round_to(i64, infinity) == 0x1p63);
  for (const DType dtype : {i64, i32, i16, i8, u8}) CHECK(round_to(dtype, not_a_number) == 0);
}

TEST_CASE("bool is whether the value is not zero") {
  CHECK(round_to(boolean, 0.25) == 1);
  CHECK(round_to(boolean, -0.0) == 0);
  CHECK(round_to(boolean, not_a_number) == 1);
}

TEST_CASE("a stored element reads back as its rounded value, for every dtype") {
  const std::vector<double> values = {0, 1, -1, 2.7, -2.7, 100.0625, 1e-3, -70000, 1e10};
  for (const DType dtype : all_dtypes) {
    std::vector<unsigned char> bytes(size_of(dtype) * values.size() + 1);
    void* const unaligned = bytes.data() + 1;
    for (std::size_t i = 0; i < values.size(); ++i) store_element(dtype, unaligned, i, values[i]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO(to_string(dtype) << " of " << values[i]);
      CHECK(load_element(dtype, unaligned, i) == round_to(dtype, values[i]));
    }
  }
}

TEST_CASE("the largest i64 survives being stored as a double") {
  std::int64_t element = 0;
  store_element(i64, &element, 0, round_to(i64, 1e300));
  CHECK(element == std::numeric_limits<std::int64_t>::max());
}

namespace {

/// Whether loops over arrays convert as one number is converted, of which NaNs only stay NaNs.
template <class T>
void require_same_conversions(int fraction_bits) {
  const auto require = [](float value) {
    const T narrow = ir::narrowed<T>(value);
    const T expected(static_cast<double>(value));
    if (std::isnan(value) ? std::isnan(ir::widened(narrow)) : narrow.bits == expected.bits) return;
    FAIL(value << " is rounded to " << narrow.bits << " instead of " << expected.bits);
  };
  for (std::uint32_t bits = 0; bits < 1U << 16; ++bits) {
    T number;
    number.bits = static_cast<std::uint16_t>(bits);
    const float wide = ir::widened(number);
    // By the definition of the format.
    const std::uint32_t magnitude = bits & 0x7fffU;
    const auto exponent = static_cast<int>(magnitude >> fraction_bits);
    const int largest = (1 << (15 - fraction_bits)) - 1;
    const auto fraction = static_cast<double>(magnitude & ((1U << fraction_bits) - 1));
    if (exponent == largest) {
      if (fraction == 0 ? !std::isinf(wide) : !std::isnan(wide)) FAIL(bits << " is " << wide);
    } else {
      const int scale = std::max(exponent, 1) - largest / 2 - fraction_bits;
      const double whole = exponent == 0 ? 0 : std::ldexp(1.0, fraction_bits);
      const double expected = std::ldexp(whole + fraction, scale);
      if (std::abs(static_cast<double>(wide)) != expected) FAIL(bits << " is " << wide);
    }
    if (std::signbit(wide) != (bits >> 15 != 0)) FAIL(bits << " is " << wide);
    // What lies beside it and beside the middle to the next one.
    const auto around = std::bit_cast<std::uint32_t>(wide);
    const std::uint32_t half_step = 1U << (22 - fraction_bits);
    for (const std::uint32_t near : {around, around + 1, around - 1, around + half_step,
                                     around + half_step + 1, around + half_step - 1})
      require(std::bit_cast<float>(near));
  }
  std::uint32_t bits = 1;
  for (int i = 0; i < 1 << 18; ++i) {
    bits = bits * 1664525U + 1013904223U;
    require(std::bit_cast<float>(bits));
  }
}

}  // namespace

TEST_CASE("loops over arrays convert 16-bit floats as single numbers are converted") {
  require_same_conversions<Half>(10);
  require_same_conversions<BFloat16>(7);
}

TEST_CASE("arrays are converted as single numbers are") {
  std::vector<float> values;
  for (int i = -1000; i < 1000; ++i) values.push_back(static_cast<float>(i) * 1.37e-2f);
  values.insert(values.end(), {0.0f, 65504.0f, 1e9f, -1e-9f, 3.0517578e-5f});
  const auto check = [&]<class T>(T) {
    std::vector<T> narrow(values.size());
    std::vector<float> wide(values.size());
    convert(values, std::span(narrow));
    convert(std::span<const T>(narrow), wide);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(narrow[i].bits == T(static_cast<double>(values[i])).bits);
      CHECK(wide[i] == static_cast<float>(narrow[i]));
    }
    CHECK(refusal([&] { convert(values, std::span(narrow).first(3)); }) ==
          "convert was given 2005 elements, and room for 3; both must be as many");
  };
  check(Half());
  check(BFloat16());
}
