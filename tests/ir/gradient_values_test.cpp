// Values of gradients: at edges, where several elements share one, in 16 bits, and of gradients.
#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

#include "coconet/functions.h"
#include "ir/access.h"
#include "ir/reference/reference.h"
#include "ir/rule_programs.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("at edges gradients are PyTorch's, or 0 where nothing reads them") {
  struct Edge {
    const char* name;
    double at, expected;
    std::function<Value(const Value&)> function;
  };
  const Edge edges[] = {
      {"sqrt behind a select", 0, 1, [](const Value& x) { return select(x > 0, sqrt(x), x); }},
      {"rsqrt behind a select", 0, 1, [](const Value& x) { return select(x > 0, rsqrt(x), x); }},
      {"log behind a select", 0, 1, [](const Value& x) { return select(x > 0, log(x), x); }},
      {"pow behind a select", 0, 1, [](const Value& x) { return select(x > 0, pow(x, -1.5), x); }},
      {"divide behind a select", 0, 1, [](const Value& x) { return select(x > 0, 1 / x, x); }},
      {"sqrt", 0, HUGE_VAL, [](const Value& x) { return sqrt(x); }},
      {"relu", 0, 0, [](const Value& x) { return relu(x); }},
      {"abs", 0, 0, [](const Value& x) { return abs(x); }},
      {"a tie of maximum", 2, 0.5, [](const Value& x) { return maximum(x, 2); }},
      {"a tie of minimum", 2, 0.5, [](const Value& x) { return minimum(x, 2); }},
      {"pow to 0", 0, 0, [](const Value& x) { return pow(x, 0); }},
      {"silu far out", 1e8, 1, [](const Value& x) { return silu(x); }},
      {"clip at its bound", 2, 1, [](const Value& x) { return clip(x, -1, 2); }},
      {"clip beyond it", 2.5, 0, [](const Value& x) { return clip(x, -1, 2); }},
      {"a product with a zero", 0, 0, [](const Value& x) { return x * 0; }},
      {"floor and more", 0.5, 1, [](const Value& x) { return x + floor(x); }},
      {"stop_gradient", 3, 3, [](const Value& x) { return x * stop_gradient(x); }},
      {"through bf16", 3, 1, [](const Value& x) { return cast(cast(x, bf16), f64); }},
  };
  for (const Edge& edge : edges) {
    INFO(edge.name);
    Program p("p", Mesh({{"world", 1}}));
    const Value x = p.input("x", f64, {1}, replicated);
    p.output("gradient", gradients(sum(edge.function(x)), {x})[0]);
    ir::Reference reference(*ir::graph_of(p), {});
    reference.set("x", {{edge.at}});
    reference.run({});
    CHECK(reference.get("gradient").at(0).front() == edge.expected);
  }
}

TEST_CASE("extremes share a gradient evenly, and a product has one at its zeros") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f64, {6}, sliced(0)), y = p.input("y", f64, {2, 3}, replicated);
  p.output("of max", gradients(max(x), {x})[0]);
  p.output("of prod", gradients(sum(prod(y, {1})), {y})[0]);
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, 5, 2}, {5, 5, 0}});
  reference.set("y", {{2, 0, 4, 0, 3, 0}, {2, 0, 4, 0, 3, 0}});
  reference.run({});
  CHECK(reference.get("of max").at(0) == ir::Data{0, 1.0 / 3, 0});
  CHECK(reference.get("of max").at(1) == ir::Data{1.0 / 3, 1.0 / 3, 0});
  CHECK(reference.get("of prod").at(0) == ir::Data{0, 8, 0, 0, 0, 0});
}

TEST_CASE("per-buffer reductions and repeat are each other's adjoints") {
  Program p("p", Mesh({{"world", 2}}));
  const Dim n = p.dim("n");
  const Value x = p.scattered_input("x", f64, n, replicated);
  const Value scale = p.input("scale", f64, {p.buffers(n)}, replicated);
  const Value g = p.input("g", f64, {n}, sliced(0));
  const Value loss = sum(sqrt(sum(square(x), per_buffer)) * scale) + sum(g * scale);
  const std::vector<Value> made = gradients(loss, {x, scale});
  CHECK(type_of(made[0]) == "x.grad: f64[n] replicated");
  p.output("x.grad", made[0]);
  p.output("scale.grad", made[1]);
  ir::Reference reference(*ir::graph_of(p), {}, {{"n", {2, 1}}});
  reference.set("x", {{3, 4, -2}, {3, 4, -2}});
  reference.set("scale", {{10, 1}, {10, 1}});
  reference.set("g", {{1, 2}, {5}});
  reference.run({});
  for (const int rank : {0, 1}) {
    CHECK(reference.get("x.grad").at(rank) == ir::Data{6, 8, -1});
    CHECK(reference.get("scale.grad").at(rank) == ir::Data{8, 7});
  }
}

TEST_CASE("a gradient has gradients, and a file holds both") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f64, {4}, sliced(0));
  const Value slope = gradients(sum(x * x * x), {x})[0];
  const Value curvature = gradients(sum(slope), {x})[0];
  CHECK(curvature.name() == "x.grad.2");
  p.output("curvature", curvature);
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, -2}, {0, 0.5}});
  reference.run({});
  CHECK(reference.get("curvature").at(0) == ir::Data{6, -12});
  CHECK(reference.get("curvature").at(1) == ir::Data{0, 3});
  CHECK(Program::parse(p.json()).str() == p.str());
}

TEST_CASE("where a gradient is 0, its own gradient is not lost") {
  struct Case {
    const char* name;
    double at, expected;
    std::function<Value(const Value&)> function;
  };
  const Case cases[] = {
      {"divide", 0, 0.5, [](const Value& x) { return square(x / 2); }},
      {"divide by a tensor", 0, 0.5, [](const Value& x) { return square(x / (x + 2)); }},
      {"mean", 0, 2, [](const Value& x) { return square(mean(x, {0}, true)); }},
      {"log", 1, 2, [](const Value& x) { return square(log(x)); }},
      {"log1p", 0, 2, [](const Value& x) { return square(log1p(x)); }},
      {"sqrt", 1, 0.5, [](const Value& x) { return square(sqrt(x) - 1); }},
      {"rsqrt", 1, 0.5, [](const Value& x) { return square(rsqrt(x) - 1); }},
      {"reciprocal", 1, 2, [](const Value& x) { return square(reciprocal(x) - 1); }},
      {"pow", 1, 18, [](const Value& x) { return square(pow(x, 3) - 1); }},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    Program p("p", Mesh({{"world", 1}}));
    const Value x = p.input("x", f64, {1}, replicated);
    const Value slope = gradients(sum(one.function(x)), {x})[0];
    p.output("curvature", gradients(sum(slope), {x})[0]);
    ir::Reference reference(*ir::graph_of(p), {});
    reference.set("x", {{one.at}});
    reference.run({});
    CHECK(reference.get("curvature").at(0).front() == Approx(one.expected));
  }
}

TEST_CASE("a number that 16 bits do not hold is divided before it is rounded") {
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f16, {4}, replicated);
  p.output("gradient", gradients(cast(max(x), f32) * 199936, {x})[0]);
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1, 1, 1, 1}});
  reference.run({});
  CHECK(reference.get("gradient").at(0) == ir::Data{49984, 49984, 49984, 49984});
}

TEST_CASE("what several readers send to 16 bits adds up in f32 and is rounded once") {
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", bf16, {1}, replicated), wide = cast(x, f32);
  // 1 and twice 3/8 of the distance to the next bf16: one by one they would round back to 1.
  const Value loss = sum(cast(x * 1, f32) + 0.75 * 0x1p-8 * wide + 0.75 * 0x1p-8 * cast(x, f32));
  p.output("gradient", gradients(loss, {x})[0]);
  ir::Reference reference(*ir::graph_of(p), {});
  reference.set("x", {{1}});
  reference.run({});
  CHECK(reference.get("gradient").at(0).front() == 1 + 0x1p-7);
}
