// Dropout: the random sequence against published vectors, the typing rule, and the reference.
#include "ir/random.h"

#include <catch2/catch.hpp>
#include <limits>

#include "coconet/program.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using Catch::EndsWith;
using ir::RankData;
using ir::Reference;

namespace {

struct Masked {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n", 8);
  Value x = p.input("x", f32, {n}, replicated);
  Value t = p.scalar("t");
};

/// Which of the elements that `out` holds were kept, of ones.
std::vector<bool> kept(const std::vector<double>& out) {
  std::vector<bool> mask;
  for (const double element : out) mask.push_back(element != 0);
  return mask;
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the words that Random123 publishes") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(ir::philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(ir::philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(ir::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an element's word is one of four of its block, offset and seed") {
  CHECK(ir::random_word(0, 0, 0) == 0x6627e8d5);
  CHECK(ir::random_word(3, 0, 0) == 0x9b00dbd8);
  // The third vector, but for two bits of the counter: blocks are below 2^62.
  CHECK(ir::random_word(0x05a308d3243f6a88 * 4 + 1, 0x0370734413198a2e, 0x299f31d0a4093822) ==
        ir::philox({0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})[1]);
}

TEST_CASE("a threshold is the probability in units of 2^-32, rounded") {
  CHECK(ir::dropout_threshold(0) == 0);
  CHECK(ir::dropout_threshold(0.5) == 0x80000000);
  CHECK(ir::dropout_threshold(0x1p-33) == 1);
  CHECK(ir::dropout_threshold(0x1p-34) == 0);
  CHECK(ir::dropout_threshold(1 - 0x1p-40) == 0x100000000);
}

TEST_CASE("dropout keeps the type of its operand") {
  Masked f;
  CHECK(test::type_of(dropout(f.x, 0.1, 7, f.t).named("d")) == "d: f32[n] replicated");
  const Value h = f.p.input("h", bf16, {f.n, 4}, sliced(1));
  CHECK(test::type_of(dropout(h, 0, 7).named("e")) == "e: bf16[n, 4] sliced(1)");
}

TEST_CASE("dropout takes a tensor of floats") {
  Masked f;
  const Value i = f.p.input("i", i32, {f.n}, replicated);
  CHECK_THAT(refusal([&] { (void)dropout(i, 0.1, 7); }),
             EndsWith("(dropout): 'i' is i32[n] replicated; dropout takes floats: cast it first"));
  CHECK_THAT(refusal([&] { (void)dropout(f.t, 0.1, 7); }),
             EndsWith("(dropout): 't' is a number; dropout takes a tensor"));
  CHECK(refusal([&] { (void)dropout(3, 0.1, 7); }) ==
        "dropout takes a tensor of a program, but its operand is the constant 3.000000");
}

TEST_CASE("dropout refuses a probability outside [0, 1)") {
  Masked f;
  CHECK_THAT(refusal([&] { (void)dropout(f.x, 1, 7); }),
             EndsWith("(dropout): drops with probability 1.000000; it must be at least 0 and less "
                      "than 1"));
  CHECK_THAT(refusal([&] { (void)dropout(f.x, -0.25, 7); }), EndsWith("less than 1"));
  CHECK_THAT(refusal([&] { (void)dropout(f.x, std::numeric_limits<double>::quiet_NaN(), 7); }),
             EndsWith("probability nan; it must be at least 0 and less than 1"));
}

TEST_CASE("dropout refuses an offset that is a tensor or no whole number") {
  Masked f;
  CHECK_THAT(refusal([&] { (void)dropout(f.x, 0.5, 7, f.x); }),
             EndsWith("(dropout): 'x' is f32[n] replicated; the offset must be a number: a "
                      "constant, or a scalar such as the number of the step"));
  CHECK_THAT(refusal([&] { (void)dropout(f.x, 0.5, 7, 0.5).named("d"); }),
             EndsWith("has the offset 0.5; it must be a whole number from 0 to 2^53, such as the "
                      "number of the step"));
  CHECK_THAT(refusal([&] { (void)dropout(f.x, 0.5, 7, -1); }), EndsWith("number of the step"));
  (void)dropout(f.x, 0.5, 7, 0x1p53);
  CHECK_THAT(refusal([&] { (void)dropout(f.x, 0.5, 7, 0x1p54); }), EndsWith("number of the step"));
}

TEST_CASE("the reference keeps what the published words say, and scales it") {
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f32, {5}, replicated);
  p.output("d", dropout(x, 0.75, 0));
  Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, 2, 3, 4, 5}});
  reference.run({});
  // The words of elements 0 to 3 are 0.40, 0.88, 0.74 and 0.61 of 2^32.
  const ir::Data& out = reference.get("d")[0];
  CHECK(std::vector<double>(out.begin(), out.begin() + 4) == std::vector<double>{0, 8, 0, 0});
}

TEST_CASE("the reference draws one mask under every layout, and the same one on local ranks") {
  const std::int64_t rows = 5, columns = 7;
  ir::Data whole;
  for (const Placement placement : {replicated, local, sliced(0), sliced(1)}) {
    Program p("p", Mesh({{"world", 3}}));
    const Value x = p.input("x", f32, {rows, columns}, placement);
    const Value d = dropout(x, 0.4, 11, 3);
    p.output("d", d);
    Reference reference(*ir::graph_of(p), {});
    RankData ones;
    for (int rank = 0; rank < 3; ++rank)
      ones.emplace_back(static_cast<std::size_t>(reference.part(ir::id_of(x), rank).count()), 1.0);
    reference.set("x", ones);
    reference.run({});
    if (whole.empty()) whole = reference.get("d")[0];
    for (int rank = 0; rank < 3; ++rank) {
      const ir::Part part = reference.part(ir::id_of(d), rank);
      ir::Data expected;
      for (std::int64_t i = 0; i < part.extent[0]; ++i) {
        for (std::int64_t j = 0; j < part.extent[1]; ++j) {
          expected.push_back(
              whole[static_cast<std::size_t>((part.begin[0] + i) * columns + part.begin[1] + j)]);
        }
      }
      CHECK(reference.get("d")[static_cast<std::size_t>(rank)] == expected);
    }
  }
}

TEST_CASE("about the probability's share of a large tensor is dropped") {
  constexpr int count = 100000;
  int dropped = 0;
  for (int i = 0; i < count; ++i)
    dropped += ir::random_word(static_cast<std::uint64_t>(i), 5, 6) < ir::dropout_threshold(0.3);
  CHECK(std::abs(dropped - 0.3 * count) < 5 * std::sqrt(count * 0.3 * 0.7));  // five sigma
}

TEST_CASE("another offset or seed draws another mask") {
  Masked f;
  f.p.output("a", dropout(f.x, 0.5, 1, f.t));
  f.p.output("b", dropout(f.x, 0.5, 2, f.t));
  Reference reference(*ir::graph_of(f.p), {{"n", 64}});
  const ir::Data ones(64, 1.0);
  reference.set("x", {ones, ones});
  reference.run({{"t", 1}});
  const auto a = kept(reference.get("a")[0]);
  CHECK(a != kept(reference.get("b")[0]));
  reference.run({{"t", 2}});
  CHECK(a != kept(reference.get("a")[0]));
  reference.run({{"t", 1}});
  CHECK(a == kept(reference.get("a")[0]));
}

TEST_CASE("the reference refuses an offset at run time that is no whole number") {
  Masked f;
  f.p.output("d", dropout(f.x, 0.5, 1, f.t).named("d"));
  Reference reference(*ir::graph_of(f.p), {{"n", 1}});
  reference.set("x", {{1}, {1}});
  CHECK_THROWS_WITH(reference.run({{"t", 1.5}}),
                    "dropout 'd' has the offset 't' = 1.5; it must be a whole number from 0 to "
                    "2^53, such as the number of the step");
}
