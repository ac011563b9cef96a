// What the reference interpreter computes and rounds each value to.
#include "ir/reference/reference.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "coconet/error.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "refusal.h"

using namespace coconet;
using ir::Data;
using ir::RankData;
using ir::Reference;

TEST_CASE("states keep their value from before the step until the step is over") {
  Program p("swap", Mesh({{"world", 1}}));
  const Value a = p.state("a", f32, {2}, replicated);
  const Value b = p.state("b", f32, {2}, replicated);
  const Value a1 = update(a, b);
  update(b, a);
  p.output("new_a", a1 + 0);
  p.output("old_a", a + 0);
  Reference reference(*ir::graph_of(p), {});
  CHECK(reference.get("a") == RankData{{0, 0}});
  reference.set("a", {{1, 2}});
  reference.set("b", {{3, 4}});
  reference.run({});
  CHECK(reference.get("a") == RankData{{3, 4}});
  CHECK(reference.get("b") == RankData{{1, 2}});
  CHECK(reference.get("new_a") == RankData{{3, 4}});
  CHECK(reference.get("old_a") == RankData{{1, 2}});
  reference.run({});
  CHECK(reference.get("a") == RankData{{1, 2}});
}

TEST_CASE("an update broadcasts its value, slices it and rounds it to the state") {
  Program p("fill", Mesh({{"world", 3}}));
  const Value x = p.state("x", f16, {2, 4}, sliced(1));
  const Value row = p.input("row", f16, {4}, replicated);
  const Value y = p.state("y", f16, {3}, replicated);
  update(x, row);
  update(y, p.scalar("s") / 3);
  Reference reference(*ir::graph_of(p), {});
  reference.set("row", RankData(3, Data{1, 2, 3, 4}));
  reference.run({{"s", 1}});
  CHECK(reference.get("x") == RankData{{1, 2, 1, 2}, {3, 4, 3, 4}, {}});
  CHECK(reference.get("y")[2] == Data(3, round_to(f16, 1.0 / 3)));
}

TEST_CASE("every value is rounded to its dtype once, where it is produced") {
  Program p("round", Mesh({{"world", 2}}));
  const Value h = p.input("h", f16, {1}, local);
  const Value i = p.input("i", i8, {1}, local);
  p.output("sum_f16", all_reduce(h, sum));
  p.output("next", h + 1);
  p.output("sum_i8", all_reduce(i, sum));
  p.output("as_u8", cast(h, u8));
  p.output("is_zero", equal(h, 0));
  Reference reference(*ir::graph_of(p), {});
  reference.set("h", {{2048.4}, {-3}});
  reference.set("i", {{100}, {100}});
  reference.run({});
  CHECK(reference.get("sum_f16")[0] == Data{2045});
  CHECK(reference.get("next") == RankData{{2048}, {-2}});
  CHECK(reference.get("sum_i8")[1] == Data{-56});
  CHECK(reference.get("as_u8") == RankData{{255}, {0}});
  CHECK(reference.get("is_zero") == RankData{{0}, {0}});
}

TEST_CASE("a product of integers wraps at every factor, as kernels do") {
  Program p("wrap", Mesh({{"world", 1}}));
  p.output("product", prod(p.input("x", i8, {90}, local)));
  Reference reference(*ir::graph_of(p), {});
  reference.set("x", {Data(90, 3)});
  reference.run({});
  std::uint8_t expected = 1;  // 3^90 is far beyond what a double or 64 bits hold
  for (int i = 0; i < 90; ++i) expected = static_cast<std::uint8_t>(expected * 3);
  CHECK(reference.get("product")[0] ==
        Data{static_cast<double>(static_cast<std::int8_t>(expected))});
}

TEST_CASE("not-a-number on one rank wins every max and min") {
  Program p("nan", Mesh({{"world", 3}}));
  const Value x = p.input("x", f32, {1}, local);
  p.output("largest", all_reduce(x, max));
  p.output("smallest", all_reduce(x, min));
  for (std::size_t culprit = 0; culprit < 3; ++culprit) {
    Reference reference(*ir::graph_of(p), {});
    RankData parts{{1}, {2}, {3}};
    parts[culprit][0] = std::numeric_limits<double>::quiet_NaN();
    reference.set("x", parts);
    reference.run({});
    CHECK(std::isnan(reference.get("largest")[0][0]));
    CHECK(std::isnan(reference.get("smallest")[2][0]));
  }
}

TEST_CASE("numbers are computed in double from scalars, constants and extents") {
  Program p("numbers", Mesh({{"world", 1}}));
  const Dim n = p.dim("n", 6);
  const Value x = p.input("x", f64, {n}, replicated);
  const Value t = p.scalar("t");
  const Value number = (1 - pow(0.9, t)).named("number");
  const Value flag = (t > 2).named("flag");
  p.output("scaled", x * number);
  p.output("average", mean(x));
  const auto& graph = *ir::graph_of(p);
  CHECK(ir::evaluate_weak(graph, ir::id_of(number), {{"t", 3}}, {}) == 1 - std::pow(0.9, 3));
  CHECK(ir::evaluate_weak(graph, ir::id_of(flag), {{"t", 3}}, {}) == 1);
  CHECK(ir::evaluate_weak(graph, ir::id_of(flag), {{"t", 2}}, {}) == 0);
  Reference reference(graph, {{"n", 4}});
  reference.set("x", {{1, 2, 3, 5}});
  reference.run({{"t", 1}});
  CHECK(reference.get("average") == RankData{{2.75}});
  CHECK(reference.get("scaled")[0][3] == 5 * (1 - 0.9));
}
