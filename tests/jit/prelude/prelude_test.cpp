// The host half of the prelude, compiled as kernels are: 16-bit floats against the library's
// own, for all values, and reductions inside a block.
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "coconet/dtype.h"
#include "ir/random.h"
#include "jit/prelude/two_arrays.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr int vector_lanes[] = {4, 8, 16, 32};

template <class Narrow>
void require_widens(const std::string& type, const std::string& body) {
  INFO(body);
  std::vector<std::uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  std::vector<float> wide(bits.size());
  TwoArrays<float, std::uint16_t>("f32", type, body)(wide, bits);
  int wrong = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    Narrow value;
    value.bits = bits[i];
    const auto expected = static_cast<float>(value);
    const bool same = std::isnan(expected) ? std::isnan(wide[i])
                                           : std::bit_cast<std::uint32_t>(expected) ==
                                                 std::bit_cast<std::uint32_t>(wide[i]);
    if (!same && ++wrong <= 3)
      FAIL_CHECK(type << " " << bits[i] << " widens to " << wide[i] << ", expected " << expected);
  }
  CHECK(wrong == 0);
}

/// All ways in which kernels widen: by element and by vector.
template <class Narrow>
void require_widens(const std::string& type) {
  require_widens<Narrow>(type,
                         "  for (index_t i = 0; i < a.count; ++i) a.out[i] = wide(a.in[i]);\n");
  for (const int lanes : vector_lanes)
    require_widens<Narrow>(type, of_vectors(lanes, "    const auto out = widened(in);\n"));
}

/// Every float with `low_bits` bits below those that the narrow type keeps, at, and one unit
/// around, each value and each midpoint between two values.
std::vector<float> around_midpoints(unsigned low_bits) {
  const std::uint32_t half = std::uint32_t{1} << (low_bits - 1);
  std::vector<float> values;
  for (std::uint64_t high = 0; high < (std::uint64_t{1} << 32);
       high += std::uint64_t{1} << low_bits) {
    for (const std::uint32_t low : {0U, 1U, half - 1, half, half + 1, 2 * half - 1}) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(high) | low));
    }
  }
  return values;
}

template <class Narrow>
void require_narrows(const std::string& type, const std::vector<float>& values,
                     const std::vector<std::uint16_t>& expected, const std::string& body) {
  INFO(body);
  std::vector<std::uint16_t> narrow(values.size());
  TwoArrays<std::uint16_t, float>(type, "f32", body)(narrow, values);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Narrow got;
    got.bits = narrow[i];
    const bool same =
        std::isnan(values[i]) ? std::isnan(static_cast<float>(got)) : got.bits == expected[i];
    if (!same && ++wrong <= 3) {
      FAIL_CHECK(values[i] << " narrows to " << type << " " << got.bits << ", expected "
                           << expected[i]);
    }
  }
  CHECK(wrong == 0);
}

/// All ways in which kernels narrow: by element, by vector, and rounded between loops over lanes.
template <class Narrow>
void require_narrows(const std::string& type, unsigned low_bits) {
  const std::vector<float> values = around_midpoints(low_bits);
  std::vector<std::uint16_t> expected;
  for (const float value : values) expected.push_back(Narrow(static_cast<double>(value)).bits);
  const auto require = [&](const std::string& body) {
    require_narrows<Narrow>(type, values, expected, body);
  };
  require("  for (index_t i = 0; i < a.count; ++i) a.out[i] = narrow<" + type + ">(a.in[i]);\n");
  for (const int lanes : vector_lanes) {
    require(of_vectors(lanes, "    const auto out = narrowed<" + type + ">(in);\n"));
    require(of_vectors(lanes,
                       "    vec<N, f32> nearest;\n"
                       "    lanes<N>([&](int l) { nearest[l] = rounded<" +
                           type +
                           ">(in[l]); });\n"
                           "    const auto out = narrowed_exactly<" +
                           type + ">(nearest);\n"));
  }
}

/// Doubles at, and one unit around, each value of Narrow and each midpoint between two. On the way
/// through f32 those around a midpoint would become that.
template <class Narrow>
std::vector<double> doubles_around_midpoints() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {infinity, -infinity, 0.0,    -0.0,   1e300,  -1e300,
                                5e-324,   -5e-324,   1e-310, 0x1p40, 0x1p128};
  double step = 0;
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    Narrow low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const double at = static_cast<float>(low), next = static_cast<float>(high);
    if (!std::isfinite(at)) break;
    if (std::isfinite(next)) step = next - at;  // else as before: infinity stands one step further
    for (const double value : {at, at + step / 2}) {
      for (const double near :
           {value, std::nextafter(value, -infinity), std::nextafter(value, infinity)}) {
        values.push_back(near);
        values.push_back(-near);
      }
    }
  }
  return values;
}

/// Integers around midpoints of floats of 8 and of 11 digits, and at the ends of Integer.
template <class Integer>
std::vector<Integer> integers_around_midpoints() {
  using Limits = std::numeric_limits<Integer>;
  std::vector<Integer> values = {0, 1, -1, Limits::max(), Limits::min()};
  for (const int digits : {8, 11}) {
    for (int exponent = digits; exponent < Limits::digits; ++exponent) {
      const Integer step = Integer{1} << (exponent - digits + 1);
      for (Integer number = Integer{1} << (digits - 1); number < Integer{1} << digits;
           number += 3) {
        for (const Integer middle : {number * step, number * step + step / 2}) {
          for (const int near : {-1, 0, 1}) {
            values.push_back(middle + near);
            values.push_back(-middle + near);
          }
        }
      }
    }
  }
  return values;
}

/// The bits of the Narrow that is nearest to `value`, ties to even: what is left of an integer's
/// leading digits decides.
template <class Narrow>
std::uint16_t nearest_bits(std::int64_t value) {
  constexpr int digits = std::is_same_v<Narrow, Half> ? 11 : 8;
  const bool negative = value < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(value) : value;
  const int unused = std::max(0, 64 - std::countl_zero(size) - digits);
  std::uint64_t kept = size >> unused;
  const std::uint64_t rest = size - (kept << unused), half = (std::uint64_t{1} << unused) / 2;
  if (unused > 0 && (rest > half || (rest == half && kept % 2 != 0))) ++kept;
  const double nearest = std::ldexp(static_cast<double>(kept), unused);  // exact
  return Narrow(negative ? -nearest : nearest).bits;
}

/// All ways in which kernels narrow what f32 does not hold: by element, by vector, and rounded in a
/// loop over lanes of which nothing else is left to round.
template <class Narrow, class Wide>
void require_narrows_once(const std::string& type, const std::string& from,
                          std::vector<Wide> values) {
  values.resize((values.size() + 31) / 32 * 32);
  std::string body = "  for (index_t i = 0; i < a.count; ++i) a.out[i] = narrow<" + type +
                     ">(a.in[i]);\n" + "  const auto by_vector = [&]<int N>(width<N, false>, " +
                     type +
                     "* out) {\n    for (index_t i = 0; i < a.count; i += N) {\n"
                     "      const auto in = load<N>(a.in + i);\n"
                     "      vec<N, f32> nearest;\n"
                     "      choosing_lanes<N>([&](int l) { nearest[l] = rounded<" +
                     type +
                     ">(in[l]); });\n"
                     "      store<N>(out + i, narrowed_exactly<" +
                     type + ">(nearest));\n      store<N>(out + a.count + i, narrowed<" + type +
                     ">(in));\n    }\n  };\n";
  std::size_t ways = 1;
  for (const int lanes : vector_lanes) {
    body += "  by_vector(width<" + std::to_string(lanes) + ", false>{}, a.out + " +
            std::to_string(ways) + " * a.count);\n";
    ways += 2;
  }
  std::vector<std::uint16_t> narrow(ways * values.size());
  TwoArrays<std::uint16_t, Wide>(type, from, body)(narrow, values);
  int wrong = 0;
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const Wide value = values[i % values.size()];
    std::uint16_t expected;
    if constexpr (std::is_integral_v<Wide>) {
      expected = nearest_bits<Narrow>(value);
    } else {
      expected = Narrow(value).bits;
    }
    if (narrow[i] != expected && ++wrong <= 3) {
      FAIL_CHECK(from << " " << value << " narrows to " << type << " " << narrow[i] << " in way "
                      << i / values.size() << ", expected " << expected);
    }
  }
  CHECK(wrong == 0);
}

template <class T>
T reduced(const std::string& type, const std::string& op, const std::vector<T>& values) {
  std::vector<T> out(1);
  TwoArrays<T, T>(type, type,
                  "  a.out[0] = block_reduce<VECTOR_BYTES / sizeof(" + type + "), " + op + ", " +
                      type +
                      ">(block, 0, a.count, 0, [&]<int N>(width<N, false>, index_t j) {\n"
                      "    return load<N>(a.in + j);\n  });\n")(out, values);
  return out[0];
}

}  // namespace

TEST_CASE("every f16 and bf16 widens to the same float") {
  require_widens<Half>("f16");
  require_widens<BFloat16>("bf16");
}

TEST_CASE("floats round to the nearest f16 and bf16, ties to even") {
  require_narrows<Half>("f16", 13);
  require_narrows<BFloat16>("bf16", 16);
}

TEST_CASE("what f32 does not hold is rounded once to the nearest f16 and bf16, ties to even") {
  require_narrows_once<Half>("f16", "f64", doubles_around_midpoints<Half>());
  require_narrows_once<BFloat16>("bf16", "f64", doubles_around_midpoints<BFloat16>());
  require_narrows_once<Half>("f16", "i32", integers_around_midpoints<std::int32_t>());
  require_narrows_once<BFloat16>("bf16", "i32", integers_around_midpoints<std::int32_t>());
  require_narrows_once<Half>("f16", "i64", integers_around_midpoints<std::int64_t>());
  require_narrows_once<BFloat16>("bf16", "i64", integers_around_midpoints<std::int64_t>());
}

TEST_CASE("a NaN of f64 is one of 16 bits") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string type : {"f16", "bf16"}) {
    std::vector<std::uint16_t> out(8);
    TwoArrays<std::uint16_t, double>(
        type, "f64", of_vectors(8, "    const auto out = narrowed<" + type + ">(in);\n"))(
        out, std::vector<double>(8, -nan));
    const std::uint16_t infinity = type == "f16" ? 0x7c00 : 0x7f80;
    CHECK(std::ranges::all_of(out, [&](int bits) { return (bits & 0x7fff) > infinity; }));
  }
}

TEST_CASE("a block reduces any number of elements, none included") {
  const TwoArrays<std::int64_t, std::int64_t> all(
      "i64", "i64",
      "  const auto elements = [&]<int N>(width<N, false>, index_t j) {\n"
      "    return load<N>(a.in + j);\n  };\n"
      "  a.out[0] = block_reduce<8, sum_of, i64>(block, 0, a.count, 0, elements);\n"
      "  a.out[1] = block_reduce<1, max_of, i64>(block, 0, a.count, 0, elements);\n"
      "  a.out[2] = block_reduce<8, min_of, i64>(block, 0, a.count, 0, elements);\n"
      "  a.out[3] = block_reduce<1, prod_of, i64>(block, 0, a.count, 0, elements);\n");
  for (std::int64_t count = 0; count < 70; ++count) {
    std::vector<std::int64_t> values;
    std::int64_t total = 0, product = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(i % 5 == 0 ? -1 - i : i);
      total += values.back();
      product = static_cast<std::int64_t>(static_cast<std::uint64_t>(product) *
                                          static_cast<std::uint64_t>(values.back()));
    }
    std::vector<std::int64_t> out(4);
    all(out, values);
    INFO(count);
    CHECK(out[0] == total);
    CHECK(out[1] == (count == 0 ? std::numeric_limits<std::int64_t>::min()
                                : *std::max_element(values.begin(), values.end())));
    CHECK(out[2] == (count == 0 ? std::numeric_limits<std::int64_t>::max()
                                : *std::min_element(values.begin(), values.end())));
    CHECK(out[3] == product);
  }
}

TEST_CASE("a block's largest and least of numbers with NaN is NaN, of none an infinity") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(reduced<float>("f32", "max_of", {1, nan, 3})));
  CHECK(std::isnan(reduced<float>("f32", "min_of", {nan, 2, 3})));
  CHECK(reduced<float>("f32", "max_of", {}) == -infinity);
  CHECK(reduced<float>("f32", "min_of", {}) == infinity);
}

TEST_CASE("every element's random word is the reference's, for indices of 64 bits") {
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < 1003; ++i) indices.push_back(i);
  for (int shift = 10; shift < 63; ++shift)
    indices.push_back((std::uint64_t{1} << shift) + static_cast<std::uint64_t>(shift));
  const TwoArrays<std::uint32_t, std::uint64_t> words(
      "u32", "u64",
      "  for (index_t i = 0; i < a.count; ++i) a.out[i] = philox(a.in[i], 0x123456789abcdefull, "
      "0xfedcba9876543210ull);\n",
      {"philox.h"});
  std::vector<std::uint32_t> out(indices.size());
  words(out, indices);
  int wrong = 0;
  for (std::size_t i = 0; i < indices.size(); ++i)
    wrong += out[i] != ir::random_word(indices[i], 0x123456789abcdef, 0xfedcba9876543210);
  CHECK(wrong == 0);
}

/// Whether integers of 8 bits keep their values in vectors of `wide`, there and back.
void require_converts(const std::string& narrow, const std::string& wide, int first) {
  std::vector<std::uint8_t> in(256 * 64), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i / 64 + i % 64);
  for (const std::string lanes : {"1", "4", "8", "16", "30", "64"}) {
    const TwoArrays<std::uint8_t, std::uint8_t> there_and_back(
        narrow, narrow,
        "  constexpr int N = " + lanes +
            ";\n  index_t i = 0;\n  for (; i + N <= a.count; i += N) {\n" + "    vec<N, " + wide +
            "> wider = converted<" + wide + ">(load<N>(a.in + i));\n" +
            "    lanes<N>([&](int l) { wider[l] = wider[l] - (" + std::to_string(first) +
            "); });\n" + "    store(a.out + i, converted<" + narrow + ">(wider));\n  }\n" +
            "  for (; i < a.count; ++i) a.out[i] = a.in[i] - (" + std::to_string(first) + ");\n");
    there_and_back(out, in);
    int wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i)
      wrong += out[i] != static_cast<std::uint8_t>(in[i] - first);
    INFO(narrow + " as " + wide + ", " + lanes + " lanes");
    CHECK(wrong == 0);
  }
}

TEST_CASE("integers of 8 bits keep their values in vectors of wider ones") {
  for (const std::string wide : {"i32", "i64"}) {
    require_converts("i8", wide, -128);
    require_converts("u8", wide, 0);
  }
}

TEST_CASE("integers of 8 bits wrap in lanes of wider ones") {
  for (const std::string wide : {"i32", "i64"}) {
    std::vector<std::int64_t> in(2000), out(2 * in.size());
    std::iota(in.begin(), in.end(), -1000);
    TwoArrays<std::int64_t, std::int64_t>(
        "i64", "i64",
        "  for (index_t i = 0; i < a.count; ++i) {\n    a.out[2 * i] = wrapped<i8>(" + wide +
            "(a.in[i]));\n    a.out[2 * i + 1] = wrapped<u8>(" + wide +
            "(a.in[i]));\n  }\n")(out, in);
    int wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      wrong += out[2 * i] != static_cast<std::int8_t>(in[i]);
      wrong += out[2 * i + 1] != static_cast<std::uint8_t>(in[i]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("vectors of random words are the reference's, in whatever order a lane asks") {
  std::vector<std::uint64_t> begins;
  for (std::uint64_t i = 0; i < 400; ++i) begins.push_back(i * 16);             // a loop
  for (std::uint64_t i = 0; i < 400; ++i) begins.push_back(3 + i * 16);         // unaligned
  for (std::uint64_t i = 400; i-- > 0;) begins.push_back(i * 7);                // backwards
  for (std::uint64_t i = 0; i < 300; ++i) begins.push_back((i * i * i) << 17);  // anywhere
  for (std::uint64_t i = 0; i < 200; ++i) begins.push_back(~std::uint64_t{0} - 16 - i);
  constexpr std::size_t in_all = 1 + 4 + 16;
  const TwoArrays<std::uint32_t, std::uint64_t> words(
      "u32", "u64",
      "  RandomWords random{0x123456789abcdefull, 0xfedcba9876543210ull};\n"
      "  const auto take = [&]<int N>(width<N, false>, u64 begin, u32* out) {\n"
      "    const auto words = random.of<N>(begin);\n"
      "    for (int l = 0; l < N; ++l) out[l] = words[l];\n"
      "  };\n"
      "  for (index_t i = 0; i < a.count; ++i) {\n"
      "    take(width<4, false>{}, a.in[i], a.out + 21 * i);\n"
      "    take(width<16, false>{}, a.in[i], a.out + 21 * i + 4);\n"
      "    take(width<1, false>{}, a.in[i] + 16, a.out + 21 * i + 20);\n"
      "  }\n",
      {"philox.h", "random_words.h"});
  std::vector<std::uint32_t> out(in_all * begins.size()), expected;
  words(out, begins);
  const auto expect = [&](std::uint64_t index) {
    expected.push_back(ir::random_word(index, 0x123456789abcdef, 0xfedcba9876543210));
  };
  for (const std::uint64_t begin : begins) {
    for (std::uint64_t l = 0; l < 4; ++l) expect(begin + l);
    for (std::uint64_t l = 0; l < 17; ++l) expect(begin + l);
  }
  CHECK(out == expected);
}

TEST_CASE("narrow integers reduce with wrapping") {
  CHECK(reduced<std::int8_t>("i8", "sum_of", {100, 100}) == static_cast<std::int8_t>(200));
  CHECK(reduced<std::uint8_t>("u8", "prod_of", {20, 20}) == static_cast<std::uint8_t>(400));
  CHECK(reduced<std::int8_t>("i8", "max_of", {}) == -128);
  CHECK(reduced<std::uint8_t>("u8", "min_of", {}) == 255);
}
