// The typing rules of iota, expand, expand_dims, as_local and stop_gradient.
#include <catch2/catch.hpp>

#include "ir/extents.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

TEST_CASE("expand broadcasts a number or a tensor, placed as what it is like") {
  Flat f;
  const Value x = f.p.input("x", f64, {f.n, 3}, sliced(0));
  CHECK(type_of(expand(2, x).named("a")) == "a: f64[n, 3] sliced(0)");
  CHECK(type_of(expand(f.lr, f.g).named("b")) == "b: f32[n] local");
  const Value row = f.p.input("row", f64, {3}, replicated);
  CHECK(type_of(expand(row, x).named("c")) == "c: f64[n, 3] sliced(0)");
  CHECK(f.p.str().find("expand(row, [n, 3])") != std::string::npos);
  CHECK(f.p.str().find("expand(lr, [n], f32)") != std::string::npos);
  CHECK_THAT(refusal([&] { (void)expand(f.w, x); }),
             EndsWith("(expand): 'w' is f32[n] replicated, which does not broadcast to [n, 3]; "
                      "dimensions counted from the right must be the same, or 1 in the operand"));
  CHECK_THAT(refusal([&] { (void)expand(x, row); }), Contains("does not broadcast to [3]"));
  CHECK_THAT(refusal([&] { (void)expand(x, f.lr); }),
             EndsWith("the number 'lr' for the shape of its result; it takes a tensor"));
  const Value i = f.p.input("i", i8, {3}, replicated);
  CHECK_THAT(refusal([&] { (void)expand(300, i); }), EndsWith("a number, which does not fit i8"));
}

TEST_CASE("expand_dims inserts dimensions of extent 1, and slices stay with theirs") {
  Flat f;
  const Value x = f.p.input("x", f32, {f.n, 3}, sliced(1));
  CHECK(type_of(expand_dims(x, {0}).named("a")) == "a: f32[1, n, 3] sliced(2)");
  CHECK(type_of(expand_dims(x, {-1, 1}).named("b")) == "b: f32[n, 1, 3, 1] sliced(2)");
  CHECK(f.p.str().find("expand_dims(x, {1, 3})") != std::string::npos);
  CHECK_THAT(
      refusal([&] {
        (void)expand_dims(x, {0, 4});
      }),
      EndsWith("inserts the dimensions {0, 4}, but 'x' is f32[n, 3] sliced(1): the result has "
               "4 dimensions, of which each is named once at most, from 0 to 3"));
  CHECK_THAT(refusal([&] { (void)expand_dims(x, {1, -3}); }), Contains("{1, -3}"));
  CHECK_THAT(refusal([&] { (void)expand_dims(x, {}); }),
             EndsWith("it takes a tensor and the dimensions to insert"));
}

TEST_CASE("iota counts along one dimension, in an integer that holds the last index") {
  Flat f;
  CHECK(type_of(f.p.iota({f.n}).named("a")) == "a: i32[n] replicated");
  CHECK(type_of(f.p.iota({f.n, 1}, i64).named("b")) == "b: i64[n, 1] replicated");
  CHECK(f.p.str().find("iota([n, 1], i64)") != std::string::npos);
  CHECK(type_of((f.p.iota({1, f.n}) < f.p.iota({3, 1})).named("c")) == "c: bool[3, n] replicated");
  CHECK_THAT(
      refusal([&] {
        (void)f.p.iota({f.n, 3});
      }),
      EndsWith("(iota): has the shape [n, 3]; the index along one dimension is asked for, and "
               "all others must be 1"));
  CHECK_THAT(refusal([&] { (void)f.p.iota({f.n}, i16); }),
             EndsWith("counts in i16; it counts in i32 or i64"));
  const std::int64_t many = (std::int64_t{1} << 31) + 1;
  CHECK_THAT(refusal([&] { (void)f.p.iota({many}); }),
             EndsWith("counts to 2147483648, which i32 does not hold; use i64"));
  CHECK_THAT(refusal([&] {
               (void)ir::resolve_sizes(*ir::graph_of(f.p), {{"n", many}});
             }),
             EndsWith("'a' (iota): counts to 2147483648, which i32 does not hold; use i64"));
  (void)f.p.iota({many}, i64);
  CHECK_THAT(refusal([&] { (void)f.p.iota({f.p.buffers(f.n)}); }),
             EndsWith("counts along n.buffers; it takes no number of buffers"));
  CHECK(Program::parse(f.p.json()).str() == f.p.str());
}

TEST_CASE("as_local makes a rank's own of what all hold, and stop_gradient leaves all as it is") {
  Grid g;
  const Value x = g.input("x", {g.n}, {{"pp", replicated}, {"tp", sliced(0)}});
  CHECK(type_of(as_local(x, "pp").named("a")) == "a: f32[n] {pp: local, tp: sliced(0)}");
  CHECK(type_of(stop_gradient(x).named("b")) == "b: f32[n] {pp: replicated, tp: sliced(0)}");
  CHECK_THAT(
      refusal([&] { (void)as_local(x, "tp"); }),
      EndsWith("{pp: replicated, tp: sliced(0)}: every rank has another slice; all_gather it "
               "first"));
  CHECK_THAT(refusal([&] { (void)as_local(as_local(x, "pp"), "pp"); }),
             EndsWith("it is local already; drop the as_local"));
  CHECK_THAT(refusal([&] { (void)stop_gradient(g.p.scalar("lr")); }),
             EndsWith("it takes a tensor: numbers have no gradient"));
}
