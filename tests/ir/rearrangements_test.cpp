// Functions that put elements elsewhere, and find where they are: numpy's values, their gradients,
// and what they refuse.
#include <catch2/catch.hpp>

#include <cmath>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/derivatives.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

/// What the ranks have of `make` of an x [2, 4] with `elements`, one behind the other.
ir::Data made_of(const ir::Data& elements, Placement placement,
                 const std::function<Value(const Value&)>& make) {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f64, {2, 4}, placement);
  Value made = make(x);
  if (made.layout()[0] != replicated) made = all_gather(made);
  p.output("made", made);
  ir::Reference reference(*ir::graph_of(p), {});
  ir::RankData parts(2);
  for (int rank = 0; rank < 2; ++rank) {
    const ir::Part part = ir::part_of(*ir::graph_of(p), ir::id_of(x), {}, rank);
    for (std::int64_t i = part.begin[0]; i < part.begin[0] + part.extent[0]; ++i) {
      for (std::int64_t j = part.begin[1]; j < part.begin[1] + part.extent[1]; ++j)
        parts[rank].push_back(elements[i * 4 + j]);
    }
  }
  reference.set("x", parts);
  reference.run({});
  return reference.get("made")[1];
}

}  // namespace

TEST_CASE("concatenate, shift, argmax and argmin have numpy's elements, of slices, too") {
  const ir::Data x = {0, 7, 2, 7, 4, -5, 6, -5};
  for (const Placement placement : {replicated, sliced(0), sliced(1)}) {
    const auto of = [&](const std::function<Value(const Value&)>& make) {
      return made_of(x, placement, make);
    };
    CHECK(of([](const Value& v) { return shift(v, 1, 1); }) == ir::Data{0, 0, 7, 2, 0, 4, -5, 6});
    CHECK(of([](const Value& v) { return shift(v, -1, -3); }) == ir::Data{7, 0, 0, 0, -5, 0, 0, 0});
    CHECK(of([](const Value& v) { return shift(v, 0, 1); }) == ir::Data{0, 0, 0, 0, 0, 7, 2, 7});
    CHECK(of([](const Value& v) { return shift(v, 1, 0) * 1; }) == x);
    CHECK(of([](const Value& v) { return shift(v, 1, 4); }) == ir::Data(8, 0));
    CHECK(of([](const Value& v) { return cumsum(v); }) == ir::Data{0, 7, 9, 16, 4, -1, 5, 0});
    CHECK(of([](const Value& v) { return cumsum(v, -1, true); }) ==
          ir::Data{16, 16, 9, 7, 0, -4, 1, -5});
    CHECK(of([](const Value& v) { return cumsum(v, 0); }) == ir::Data{0, 7, 2, 7, 4, 2, 8, 2});
    CHECK(of([](const Value& v) { return argmax(v); }) == ir::Data{1, 2});
    CHECK(of([](const Value& v) { return argmin(v); }) == ir::Data{0, 1});
    CHECK(of([](const Value& v) { return argmax(v, 0); }) == ir::Data{1, 0, 1, 0});
    CHECK(made_of({0, NAN, 9, NAN, 1, 1, 1, 1}, placement,
                  [](const Value& v) { return argmax(v); }) == ir::Data{1, 0});
    const bool is_whole = placement != sliced(0);
    if (is_whole) {
      CHECK(of([](const Value& v) {
              return concatenate({v, v * 2, window(v, 0, 0, 1)}, 0);
            }) == ir::Data{0, 7, 2, 7, 4, -5, 6, -5, 0, 14, 4, 14, 8, -10, 12, -10, 0, 7, 2, 7});
    }
  }
}

TEST_CASE("rotary turns pairs by their place, wherever it is sliced") {
  const ir::Data x = {1, 2, 3, 4, 5, 6, 7, 8};
  ir::Data expected(8);
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle = static_cast<double>(s) * std::pow(100.0, -0.5 * static_cast<double>(i));
      const double a = x[4 * s + i], b = x[4 * s + 2 + i];
      expected[4 * s + i] = a * std::cos(angle) - b * std::sin(angle);
      expected[4 * s + 2 + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  for (const Placement placement : {replicated, sliced(0)}) {
    const ir::Data made = made_of(x, placement, [](const Value& v) { return rotary(v, 0, 100); });
    for (std::size_t i = 0; i < 8; ++i) CHECK(made[i] == Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("what is put elsewhere has the derivative of where it comes from") {
  for (const Placement placement : {replicated, sliced(0), sliced(1)}) {
    Program p("p", Mesh({{"world", 2}}));
    const Value x = p.input("x", f64, {3, 4}, placement), y = p.input("y", f64, {3, 4}, replicated);
    const Value whole = placement == replicated ? x : all_gather(x);
    const Value loss = sum(sin(shift(x, 0, 1) * y)) + sum(sin(shift(x, 1, -2))) +
                       sum(sin(concatenate({whole, y, whole}, 1))) + sum(sin(rotary(whole, 0))) +
                       sum(sin(cumsum(x, 1))) + sum(cos(cumsum(x, 0, true))) +
                       sum(sin(window(whole, 1, 1, 4, 2))) +
                       sum(sin(take(whole, 5 - p.iota({7}), 1))) +
                       sum(sin(reshape(whole, {2, 6}) * reshape(y, {2, 6})));
    CHECK(distance_from_differences(loss, {x, y}, {}, 5) < 1e-6);
  }
}

TEST_CASE("functions that put elements elsewhere say what they do not take") {
  Program p("p", Mesh({{"world", 2}}));
  const Dim n = p.dim("n");
  const Value x = p.input("x", f32, {n, 6}, sliced(0)), y = p.input("y", f32, {4, 5}, replicated),
              i = p.input("i", i32, {4, 6}, replicated);
  CHECK_THAT(refusal([&] { (void)shift(x, 0, 1); }),
             EndsWith("the extent of dimension 0 is one that the program states, not 'n'"));
  CHECK_THAT(refusal([&] { (void)cumsum(y > 0); }), Contains("bool"));
  CHECK_THAT(refusal([&] { (void)shift(x, 2, 1); }),
             EndsWith("shift: x: f32[n, 6] sliced(0); it takes a tensor, and has no dimension 2"));
  CHECK_THAT(refusal([&] {
               (void)concatenate({y, i}, 1);
             }),
             EndsWith("concatenate: y: f32[4, 5] replicated and i: i32[4, 6] replicated; they "
                      "differ in dimension 1 alone"));
  CHECK_THAT(refusal([&] { (void)concatenate({}); }), Contains("was given none"));
  const Value own = p.input("own", f32, {4, 5}, local),
              cut = p.input("cut", f32, {4, 5}, sliced(1));
  const std::string before = p.str();
  CHECK_THAT(refusal([&] {
               (void)concatenate({own, cut});
             }),
             EndsWith("concatenate: along axis 'world' own: f32[4, 5] local and cut: f32[4, 5] "
                      "sliced(1) do not combine; all_gather one of them"));
  CHECK_THAT(refusal([&] {
               (void)concatenate({y, cut}, 1);
             }),
             Contains("'cut' is f32[4, 5] sliced(1), of which no rank has all along dimension 1"));
  CHECK(p.str() == before);
  CHECK_THAT(
      refusal([&] { (void)rotary(y, 0); }),
      EndsWith("it takes floats, an even number of them in the last dimension, and positions "
               "along another one"));
  CHECK_THAT(refusal([&] { (void)rotary(i, 0); }), Contains("it takes floats"));
  CHECK_THAT(refusal([&] { (void)rotary(x, 0, 0); }), EndsWith("base is 0; it must be above 0"));
  CHECK_THAT(refusal([&] { (void)argmax(y > 0); }), Contains("it takes numbers: cast it to i8"));
  CHECK_THAT(refusal([&] { (void)rotary(x, 1); }), Contains("positions along another one"));
  CHECK_THAT(refusal([&] { (void)argmax(p.scalar("t")); }), Contains("it takes a tensor"));
}
