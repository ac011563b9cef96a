// Lowering: matmuls are steps of their own.
#include <catch2/catch.hpp>

#include "coconet/programs.h"
#include "ir/access.h"
#include "sched/plan.h"
#include "sched/plans.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;

TEST_CASE("a matmul is a step of its own between the kernels that it reads and feeds") {
  Program p("mlp", two_ranks());
  const Value x = p.input("x", f32, {3, 4}, sliced(1));
  const Value w = p.state("w", f32, {4, 5}, sliced(0));
  const Value products = matmul((x * 2).named("twice"), w).named("products");
  p.output("y", relu(all_reduce(products, sum).named("total")).named("y"));
  CHECK(plan_of(p) ==
        "buffers\n"
        "  x         f32[3, 4]  sliced(1)   input\n"
        "  w         f32[4, 5]  sliced(0)   state\n"
        "  y         f32[3, 5]  replicated  output\n"
        "  twice     f32[3, 4]  sliced(1)   temporary\n"
        "  products  f32[3, 5]  local       temporary\n"
        "  total     f32[3, 5]  replicated  temporary\n"
        "steps\n"
        "  1. kernel twice (computation) over [3, 4] sliced(1)\n"
        "    reads    x\n"
        "    computes twice\n"
        "    writes   twice\n"
        "  2. matmul of [3, 5] local\n"
        "    reads    twice, w\n"
        "    writes   products\n"
        "  3. library all_reduce (sum) along world\n"
        "    reads    products\n"
        "    writes   total\n"
        "  4. kernel y (computation) over [3, 5] replicated\n"
        "    reads    total\n"
        "    computes y\n"
        "    writes   y\n");
}

TEST_CASE("a bias is added where the product is made, if a kernel would do nothing else") {
  const auto steps_with = [](DType dtype, const std::vector<Dim>& shape, bool computes,
                             bool fused) {
    Program p("biased", two_ranks());
    const Value x = p.input("x", dtype, {4, 3}, replicated);
    const Value product = matmul(x, p.input("w", dtype, {3, 5}, replicated)).named("product");
    const Value biased = (p.input("b", dtype, shape, replicated) + product).named("biased");
    p.output("y", computes ? relu(biased).named("y") : biased);
    if (fused) p = Schedule().fuse("adds", "computation", {"biased"}).apply(p).back();
    return steps_of(p);
  };
  CHECK(steps_with(f32, {5}, false, false) ==
        "  1. matmul of [4, 5] replicated\n"
        "    reads    x, w\n"
        "    adds     b\n"
        "    writes   y\n");
  CHECK(steps_with(f32, {1, 5}, false, false) == steps_with(f32, {5}, false, false));
  for (const std::string& steps :
       {steps_with(f32, {5}, true, false), steps_with(f32, {5}, false, true),
        steps_with(bf16, {5}, false, false), steps_with(f32, {4, 1}, false, false),
        steps_with(f32, {4, 5}, false, false)}) {
    CHECK_THAT(steps, Contains("    writes   product\n") && Contains("  2. kernel "));
  }
}

TEST_CASE("a product of one row is no bias of itself") {
  Program p("twice", two_ranks());
  const Value x = p.input("x", f32, {1, 3}, replicated);
  const Value product = matmul(x, p.input("w", f32, {3, 5}, replicated)).named("product");
  p.output("y", product + product);
  CHECK_THAT(steps_of(p), Contains("  2. kernel ") && Contains("    reads    product\n"));
}

TEST_CASE("the plan says which operands of a matmul are transposed") {
  Program p("transposed", two_ranks());
  const Value x = p.input("x", f32, {3, 3}, replicated);
  p.output("right", matmul(x, x, false, true).named("right"));
  CHECK_THAT(steps_of(p), Contains("    reads    x, x transposed\n"));
}

TEST_CASE("a matmul that writes the state that it reads goes through a buffer of its own") {
  Program p("in_place", two_ranks());
  const Value w = p.state("w", f32, {3, 3}, replicated);
  update(w, matmul(w, w).named("square")).named("w.new");
  CHECK(steps_of(p) ==
        "  1. matmul of [3, 3] replicated\n"
        "    reads    w, w\n"
        "    writes   square\n"
        "  2. kernel w_new (computation) over [3, 3] replicated\n"
        "    reads    square\n"
        "    writes   w\n");
}
