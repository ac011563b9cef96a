// Plans of programs with gradients.
#include <catch2/catch.hpp>

#include "coconet/functions.h"
#include "ir/access.h"
#include "sched/plan.h"

using namespace coconet;

namespace {

/// Whether a plan of `program` has a value `name`.
bool plans(const Program& program, const std::string& name) {
  return sched::lower(*ir::graph_of(program)).graph.find(name) >= 0;
}

}  // namespace

TEST_CASE("what only stops gradients is in no plan, unless it is asked for by name") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {8}, replicated);
  const Value stopped = stop_gradient(x).named("stopped"), kept = stop_gradient(x).named("kept");
  p.output("y", (stopped + kept).named("sum"));
  p.output("kept", kept);
  CHECK(plans(p, "sum"));
  CHECK_FALSE(plans(p, "stopped"));
  CHECK(plans(p, "kept"));
}

TEST_CASE("a training step meets other ranks once for each gradient that they add up") {
  Program p("p", Mesh({{"world", 2}}));
  const Value x = p.input("x", f32, {8, 4}, local), w = p.state("w", f32, {4, 3}, replicated);
  const Value b = p.state("b", f32, {3}, replicated);
  const Value loss = all_reduce(mean(square(matmul(x, w) + b)), mean);
  const std::vector<Value> made = gradients(loss, {w, b});
  update(w, w - made[0]);
  update(b, b - made[1]);
  int collectives = 0, products = 0;
  for (const sched::PlanStep& step : sched::lower(*ir::graph_of(p)).steps) {
    collectives += std::holds_alternative<sched::LibraryStep>(step) ? 1 : 0;
    products += std::holds_alternative<sched::MatmulStep>(step) ? 1 : 0;
  }
  CHECK(collectives == 2);  // nothing needs the loss
  CHECK(products == 2);
}
