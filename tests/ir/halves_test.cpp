// An f32 in two halves, and stochastic rounding: bits, typing rules, and the mean of many.
#include "ir/halves.h"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/random.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using Catch::EndsWith;

namespace {

std::uint32_t bits_of(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}
double of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

struct Sliced {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 8);
  Value x = p.input("x", f32, {n}, sliced(0));
  Value t = p.scalar("t");
};

}  // namespace

TEST_CASE("the halves of an f32 are the nearest bf16 and the rest of its bits") {
  CHECK(ir::upper_half(1 + 0x1p-9) == 1);
  CHECK(ir::lower_half(1 + 0x1p-9) == 0x4000);
  CHECK(ir::upper_half(1 + 0x1p-8) == 1 + 0x1p-7);  // a tie
  CHECK(ir::lower_half(1 + 0x1p-8) == -0x8000);
  CHECK(ir::upper_half(-1 - 0x1p-8) == -1 - 0x1p-7);
  CHECK(std::isinf(ir::upper_half(std::numeric_limits<float>::max())));
  CHECK(bits_of(ir::upper_half(-0.0)) == 0x80000000);
}

TEST_CASE("the halves of every kind of f32 are joined to the same bits") {
  int different = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const double value = of_bits(upper << 16 | lower);
      const double joined = ir::join_halves(ir::upper_half(value), ir::lower_half(value));
      different += std::isnan(value) ? !std::isnan(joined) : bits_of(joined) != bits_of(value);
    }
  }
  CHECK(different == 0);
}

TEST_CASE("stochastic rounding keeps what bf16 has, infinities and NaN") {
  for (const double value : {0.0, 1.0, -3.140625, 0x1p-133, -0x1p127}) {
    for (const std::uint32_t word : {0U, 0xffffU, 0xffffffffU})
      CHECK(ir::rounded_stochastically(value, word) == value);
  }
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(ir::rounded_stochastically(-infinite, 0xffff) == -infinite);
  CHECK(std::isnan(ir::rounded_stochastically(std::nan(""), 0xffff)));
}

TEST_CASE("stochastic rounding goes to either neighbour, and to the value on average") {
  constexpr double value = -(1 + 0.3 * 0x1p-7);
  constexpr int draws = 100000;
  double total = 0;
  std::array<int, 2> counts{};
  for (int i = 0; i < draws; ++i) {
    const double rounded =
        ir::rounded_stochastically(value, ir::random_word(static_cast<std::uint64_t>(i), 3, 7));
    REQUIRE((rounded == -1 || rounded == -1 - 0x1p-7));
    ++counts[rounded == -1 ? 0 : 1];
    total += rounded;
  }
  // Four standard deviations of the mean of so many.
  CHECK(std::fabs(total / draws - value) < 4 * 0x1p-7 * std::sqrt(0.3 * 0.7 / draws));
  CHECK(counts[1] > 0);
}

TEST_CASE("halves and stochastic rounding have the dtypes that they are for") {
  Sliced f;
  CHECK(test::type_of(upper_half(f.x).named("u")) == "u: bf16[n] sliced(0)");
  CHECK(test::type_of(lower_half(f.x).named("l")) == "l: i16[n] sliced(0)");
  const Value joined = join_halves(upper_half(f.x), lower_half(f.x)).named("j");
  CHECK(test::type_of(joined) == "j: f32[n] sliced(0)");
  CHECK(test::type_of(stochastic_cast(f.x, bf16, 3, f.t).named("s")) == "s: bf16[n] sliced(0)");
}

TEST_CASE("halves and stochastic rounding say what they take") {
  Sliced f;
  const Value h = f.p.input("h", f16, {f.n}, sliced(0));
  CHECK_THAT(refusal([&] { (void)upper_half(h); }),
             EndsWith("'h' is f16[n] sliced(0); operand 1 of upper_half must be a tensor of f32"));
  CHECK_THAT(refusal([&] { (void)lower_half(f.t); }),
             EndsWith("'t' is a number; operand 1 of lower_half must be a tensor of f32"));
  CHECK_THAT(refusal([&] { (void)join_halves(cast(f.x, bf16), h); }),
             EndsWith("'h' is f16[n] sliced(0); operand 2 of join_halves must be a tensor of i16"));
  CHECK_THAT(
      refusal([&] { (void)stochastic_cast(f.x, f16, 3, f.t); }),
      EndsWith("'x' is f32[n] sliced(0), to be cast to f16; stochastic_cast makes bf16 of f32"));
  CHECK_THAT(refusal([&] { (void)stochastic_cast(h, bf16, 3, f.t); }),
             EndsWith("to be cast to bf16; stochastic_cast makes bf16 of f32"));
  CHECK_THAT(refusal([&] { (void)stochastic_cast(f.x, bf16, 3, f.x); }),
             EndsWith("the offset must be a number: a constant, or a scalar such as the number of "
                      "the step"));
  CHECK_THAT(refusal([&] { (void)stochastic_cast(f.x, bf16, 3, 0.5); }),
             EndsWith("has the offset 0.5; it must be a whole number from 0 to 2^53, such as the "
                      "number of the step"));
}
