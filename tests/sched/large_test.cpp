// Programs of thousands of values: what patterns make of many at once, and what a graph knows of
// each. How long it takes is measured by bench/run.sh planning.
#include "sched/large_program.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>

#include "ir/access.h"
#include "sched/plan.h"
#include "sched/subjects.h"

using namespace coconet;

namespace {

/// Two parameters with Adam's moments of their own.
Program two_parameters() {
  Program p("two", two_ranks());
  const Dim n = p.dim("n", 8);
  for (const std::string name : {"a", "b"}) {
    const Value g = p.input(name + ".g", f32, {n}, local);
    const Value w = p.state(name + ".w", f32, {n}, replicated);
    const Value m = p.state(name + ".m", f32, {n}, replicated);
    const Value avg = all_reduce(g, mean).named(name + ".avg");
    const Value m1 = update(m, 0.9 * m + avg);
    update(w, w - 0.5 * m1);
  }
  return p;
}

}  // namespace

TEST_CASE("a pattern makes of many values what a step for each makes") {
  Schedule by_pattern, one_by_one;
  by_pattern.split("*.avg");
  one_by_one.split("a.avg").split("b.avg");
  for (Schedule* schedule : {&by_pattern, &one_by_one}) {
    for (const std::string name : {"a", "b"})
      schedule->reorder(name + ".avg.all_gather", {name + ".m.new", name + ".w.new"});
  }
  by_pattern.as_slice("*.m");
  one_by_one.as_slice("a.m").as_slice("b.m");
  CHECK(after(two_parameters(), by_pattern).str() == after(two_parameters(), one_by_one).str());
  CHECK(by_pattern.apply(two_parameters()).size() == 5);
}

TEST_CASE("a pattern that one of its values refuses says which") {
  CHECK_THAT(reason(two_parameters(), Schedule().split("a.avg").as_slice("*.m")),
             Catch::StartsWith("the update of 'a.m' (state) writes "));
}

TEST_CASE("a training step of many layers becomes one plan") {
  const test::LargeProgram large(13);
  const sched::Plan plan =
      sched::lower(*ir::graph_of(after(large.program(), test::LargeProgram::schedule())));
  std::set<std::string> kernels;
  int products = 0;
  for (const sched::PlanStep& step : plan.steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) kernels.insert(kernel->name);
    products += std::holds_alternative<sched::MatmulStep>(step) ? 1 : 0;
  }
  CHECK(products == 13 * 24);
  for (int layer = 0; layer < 5; ++layer) CHECK(kernels.contains(fmt::format("w_up_{}", layer)));
  for (int layer = 5; layer < 13; ++layer) CHECK(kernels.contains(fmt::format("wq_{}", layer)));
}
