// The typing rules of window, pad, reshape and take, and what they mean.
#include <catch2/catch.hpp>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/factors.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

struct Gathers {
  Program p{"p", Mesh({{"world", 2}})};
  Dim n = p.dim("n");
  Value x = p.input("x", f32, {n, 3, 8}, sliced(1));
  Value table = p.state("table", f32, {10, 4}, replicated);
  Value rows = p.state("rows", f32, {10, 4}, sliced(0));
  Value i = p.input("i", i32, {n, 5}, sliced(0));
};

/// What each rank has of `value`, where input "x" of both is `x`.
ir::RankData evaluated(Program& p, const Value& value, const ir::RankData& x) {
  p.output("out", value);
  ir::Reference reference(*ir::graph_of(p), {}, {});
  reference.set("x", x);
  reference.run({});
  return reference.get("out");
}

}  // namespace

TEST_CASE("window, pad and reshape change dimensions that every rank has whole") {
  Gathers f;
  CHECK(type_of(window(f.x, 2, 1, 7, 2).named("a")) == "a: f32[n, 3, 3] sliced(1)");
  CHECK(type_of(window(f.x, -1, -3, -1).named("b")) == "b: f32[n, 3, 2] sliced(1)");
  CHECK(type_of(pad(f.x, -1, 1, 2).named("c")) == "c: f32[n, 3, 11] sliced(1)");
  CHECK(type_of(reshape(f.x, {1, f.n, 3, 2, 4}).named("d")) == "d: f32[1, n, 3, 2, 4] sliced(2)");
  CHECK(f.p.str().find("window(x, dim 2, begin 1, end 7, step 2)") != std::string::npos);
  CHECK(Program::parse(f.p.json()).json() == f.p.json());

  CHECK_THAT(refusal([&] { (void)window(f.x, 1, 0, 2); }),
             EndsWith("'x' is f32[n, 3, 8] sliced(1), of which no rank has all along dimension 1: "
                      "all_gather it first"));
  CHECK_THAT(refusal([&] { (void)window(f.x, 0, 0, 2); }),
             EndsWith("the extent of dimension 0 is one that the program states, not 'n'"));
  CHECK_THAT(refusal([&] { (void)window(f.x, 2, 3, 9); }),
             EndsWith("has the elements from 3 to 9, every 1, but 'x' is f32[n, 3, 8] sliced(1): "
                      "they are some from 0 to 8 of dimension 2"));
  CHECK_THAT(refusal([&] { (void)window(f.x, 2, 3, 5, 0); }), Contains("from 3 to 5, every 0"));
  CHECK_THAT(refusal([&] { (void)window(f.x, 3, 0, 2); }), Contains("it has 3 dimensions"));
  CHECK_THAT(refusal([&] { (void)window(f.x, -4, 0, 2); }), Contains("it has 3 dimensions"));
  CHECK_THAT(refusal([&] { (void)window(f.x, 2, -9, 2); }), Contains("from -9 to 2"));
  CHECK_THAT(refusal([&] { (void)pad(f.x, 2, -1, 0); }),
             EndsWith("has -1 zeros in front and 0 behind; window takes elements away"));
  CHECK_THAT(refusal([&] { (void)pad(f.x, 2, 1, INT64_MAX - 8); }), Contains("addresses"));
  CHECK_THAT(refusal([&] {
               (void)reshape(f.x, {f.n, 3, 9});
             }),
             EndsWith("has the shape [n, 3, 9], but 'x' is f32[n, 3, 8] sliced(1); it has the same "
                      "elements in their order, and dimensions that the program does not state "
                      "stay as they are"));
  CHECK_THAT(refusal([&] {
               (void)reshape(f.x, {f.n, 24});
             }),
             EndsWith("'x' is f32[n, 3, 8] sliced(1), and dimension 1 does not stay as it is: "
                      "all_gather it first"));
  CHECK_THAT(refusal([&] {
               (void)reshape(f.x, {3, f.n, 8});
             }),
             Contains("has the shape [3, n, 8]"));
}

TEST_CASE("take looks up along a dimension, of which a slice gives each rank its share") {
  Gathers f;
  CHECK(type_of(take(f.table, f.i).named("a")) == "a: f32[n, 5, 4] sliced(0)");
  CHECK(type_of(take(f.x, f.p.iota({6}), 2).named("b")) == "b: f32[n, 3, 6] sliced(1)");
  CHECK(type_of(take(f.rows, f.p.iota({6})).named("c")) == "c: f32[6, 4] local");
  CHECK(Program::parse(f.p.json()).json() == f.p.json());
  CHECK_THAT(refusal([&] { (void)take(f.table, f.table); }),
             EndsWith("the indices are a tensor of i32 or i64, not scattered over buffers"));
  CHECK_THAT(refusal([&] { (void)take(f.table, 3); }), Contains("the indices are a tensor"));
  CHECK_THAT(refusal([&] { (void)take(f.table, f.i, 2); }),
             EndsWith("looks along dimension 2, but 'table' is f32[10, 4] replicated: it has 2 "
                      "dimensions, counted from 0"));
  CHECK_THAT(refusal([&] { (void)take(f.rows, f.i); }),
             Contains("along axis 'world' 'rows' is f32[10, 4] sliced(0) and 'i' is i32[n, 5] "
                      "sliced(0); each rank would look in its slice for indices of its own"));
  // What is refused leaves nothing behind.
  const std::string before = f.p.str();
  CHECK_THAT(refusal([&] { (void)take(f.table, f.table); }), Contains("'table' is f32[10, 4]"));
  CHECK(f.p.str() == before);
}

TEST_CASE("reshapes pass on what stays, and nothing where elements are not as many") {
  using Kind = ir::Factor::Kind;
  const Dim n("n", 0);
  const auto kinds = [](const Shape& own, const Shape& result) {
    std::string text;
    const auto factors = ir::factors_of_reshape(own, result);
    if (!factors) return std::string("none");
    for (const ir::Factor& factor : *factors)
      text += factor.kind == Kind::passes ? std::to_string(factor.of_result) : "-";
    return text;
  };
  CHECK(kinds({n, 6, 4}, {n, 2, 3, 4}) == "0-3");
  CHECK(kinds({n, 2, 3, 4}, {n, 6, 4}) == "0--2");
  CHECK(kinds({2, 3}, {3, 2}) == "--");
  CHECK(kinds({4, 6, 5}, {8, 3, 5}) == "--2");
  CHECK(kinds({1, n, 1}, {n}) == "-0-");
  CHECK(kinds({n}, {1, n, 1}) == "1");
  CHECK(kinds({6}, {}) == "none");
  CHECK(kinds({1}, {}) == "-");
  CHECK(kinds({n, 2}, {2, n}) == "none");
  CHECK(kinds({2, 3}, {7}) == "none");
  CHECK(kinds({std::int64_t{1} << 62, 8}, {8, std::int64_t{1} << 62}) == "none");
}

TEST_CASE("the reference has numpy's elements") {
  const ir::RankData x = {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
  const auto of = [&](auto&& make) {
    Program p("p", Mesh({{"world", 2}}));
    const Value in = p.input("x", f64, {2, 3}, replicated);
    return evaluated(p, make(p, in), x).back();
  };
  CHECK(of([](Program&, const Value& v) { return window(v, 1, 0, 3, 2); }) == ir::Data{0, 2, 3, 5});
  CHECK(of([](Program&, const Value& v) { return window(v, 0, 1, 2); }) == ir::Data{3, 4, 5});
  CHECK(of([](Program&, const Value& v) { return pad(v, 0, 1, 0); }) ==
        ir::Data{0, 0, 0, 0, 1, 2, 3, 4, 5});
  CHECK(of([](Program&, const Value& v) { return pad(v, 1, 0, 1); }) ==
        ir::Data{0, 1, 2, 0, 3, 4, 5, 0});
  CHECK(of([](Program&, const Value& v) {
          return transpose(reshape(v, {3, 2}), {1, 0});
        }) == ir::Data{0, 2, 4, 1, 3, 5});
  // An index outside is the nearest.
  CHECK(of([](Program& p, const Value& v) { return take(v, 3 - p.iota({5}), 1); }) ==
        ir::Data{2, 2, 1, 0, 0, 5, 5, 4, 3, 3});
}

TEST_CASE("take is rows of a table by number, and its gradient adds up what is taken twice") {
  for (const bool is_symbolic : {true, false}) {
    Program p("p", Mesh({{"world", 2}}));
    const Dim rows = is_symbolic ? p.dim("V") : Dim(3);
    const Value table = p.state("table", f64, {rows, 2}, replicated);
    const Value indices = p.input("indices", i32, {2, 2}, replicated);
    const Value taken = take(table, indices);
    CHECK(type_of(taken.named("taken")) == "taken: f64[2, 2, 2] replicated");
    p.output("taken", taken);
    const Value weights = p.input("weights", f64, {2, 2, 2}, replicated);
    p.output("gradient", gradients(sum(taken * weights), {table})[0]);
    // Each rank takes from its rows.
    p.output("of slices", all_reduce(take(slice(table), indices), sum));
    ir::Reference reference(*ir::graph_of(p), is_symbolic ? ir::Sizes{{"V", 3}} : ir::Sizes{});
    const auto set = [&](const char* name, const ir::Data& all) {
      reference.set(name, {all, all});
    };
    set("table", {10, 11, 20, 21, 30, 31});
    set("indices", {2, 0, 7, -1});  // those outside are the nearest
    set("weights", {1, 2, 3, 4, 5, 6, 7, 8});
    reference.run({});
    CHECK(reference.get("taken")[1] == ir::Data{30, 31, 10, 11, 30, 31, 10, 11});
    CHECK(reference.get("of slices")[1] == reference.get("taken")[1]);
    CHECK(reference.get("gradient")[1] == ir::Data{3 + 7, 4 + 8, 0, 0, 1 + 5, 2 + 6});
  }
}
