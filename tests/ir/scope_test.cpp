// Scopes: names of what is made inside them, of gradients, and of optimizers' states.
#include <catch2/catch.hpp>

#include <optional>
#include <vector>

#include "coconet/functions.h"
#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "refusal.h"

using namespace coconet;

TEST_CASE("names begin with the scopes that they are made in") {
  Program p("p", Mesh({{"world", 2}}));
  Value inner;
  {
    const Scope layer = p.scope("layer3");
    const Value x = p.input("x", f32, {4}, replicated);
    CHECK(x.name() == "layer3.x");
    {
      const Scope attention = p.scope("attention");
      inner = (x * 2).named("q");
      CHECK(inner.name() == "layer3.attention.q");
      CHECK((x + 1).name().starts_with("layer3.attention.add_"));
      CHECK(sum(x).name().starts_with("layer3.attention.sum_"));
      p.output("q", inner);
    }
    CHECK(p.scalar("lr").name() == "layer3.lr");
    CHECK(p.state("w", f32, {4}, replicated).name() == "layer3.w");
    CHECK(
        refusal([&] { (void)x.named("w"); }) ==
        "'layer3.x' cannot be named 'layer3.w': program 'p' has a value or an output of that name");
  }
  CHECK(p.input("x", f32, {4}, replicated).name() == "x");
  CHECK(ir::graph_of(p)->find_output("layer3.attention.q") == ir::id_of(inner));
  CHECK(Program::parse(p.json()).str() == p.str());
  CHECK(refusal([&] { (void)p.scope(""); }) == "a scope of program 'p' needs a name");
}

TEST_CASE("scopes end in any order") {
  Program p("p", Mesh({{"world", 1}}));
  {
    std::vector<Scope> both;
    both.push_back(p.scope("a"));
    both.push_back(p.scope("b"));
    CHECK(p.scalar("x").name() == "a.b.x");
  }
  CHECK(p.scalar("x").name() == "x");
  std::optional<Scope> layer;
  layer.emplace(p.scope("l1"));
  layer.emplace(p.scope("l2"));
  CHECK(p.scalar("y").name() == "l2.y");
  layer.reset();
  CHECK(p.scalar("y").name() == "y");
}

TEST_CASE("gradients are named in the scopes of what they are of") {
  Program p("p", Mesh({{"world", 1}}));
  Value h = p.input("x", f32, {3, 4}, replicated);
  std::vector<Value> weights;
  for (const char* name : {"l0", "l1"}) {
    const Scope layer = p.scope(name);
    weights.push_back(p.state("w", f32, {4, 4}, replicated));
    h = tanh(matmul(h, weights.back()));
  }
  const Value loss = sum(square(h)).named("loss");
  const ir::ValueId before = ir::graph_of(p)->size();
  const std::vector<Value> made = gradients(loss, weights);
  CHECK(made[0].name() == "l0.w.grad");
  CHECK(made[1].name() == "l1.w.grad");
  bool in_l0 = false;
  for (ir::ValueId id = before; id < ir::graph_of(p)->size(); ++id) {
    const ir::Node& node = ir::graph_of(p)->at(id);
    in_l0 = in_l0 || node.name.starts_with("l0.multiply_");
    if (node.op == ir::Op::matmul && !node.user_named) CHECK(node.name.starts_with("l"));
  }
  CHECK(in_l0);
  CHECK(p.scalar("after").name() == "after");
  programs::adam(p, weights, made);
  CHECK(ir::graph_of(p)->find("l1.w.m") >= 0);
  CHECK(ir::graph_of(p)->find("lr") >= 0);
  // What is called after a value has its scope, wherever it is made.
  const Scope again = p.scope("l1");
  const Value w = p.state("v", f32, {4}, replicated);
  const std::vector<Value> more = gradients(sum(square(w)), {w});
  CHECK(more[0].name() == "l1.v.grad");
  programs::accumulate(p, more);
  CHECK(ir::graph_of(p)->find("l1.v.grad.sum") >= 0);
  programs::sgd(p, {w}, more);
  CHECK(ir::graph_of(p)->find("l1.lr") < 0);
  CHECK(ir::graph_of(p)->find("l1.v.new") >= 0);
}
