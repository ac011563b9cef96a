// Lowering: what reads the old value of a state that the step overwrites.
#include <catch2/catch.hpp>

#include "coconet/programs.h"
#include "ir/access.h"
#include "sched/plan.h"
#include "sched/plans.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;

TEST_CASE("a reader of a state's old value runs before the kernel that overwrites it") {
  Program p("before", two_ranks());
  const Value w = p.state("w", f32, {4}, replicated);
  update(w, w * 2);
  p.output("old", (w + 1).named("old"));
  CHECK(kernel_names(p) == std::vector<std::string>{"old", "w_new"});
}

TEST_CASE("a reader of the old value that needs the new one gets a copy") {
  Program p("difference", two_ranks());
  const Value w = p.state("w", f32, {4}, replicated);
  const Value w1 = update(w, w * 2);
  p.output("change", (sum(w1) * w).named("change"));
  CHECK_THAT(
      steps_of(p),
      Contains(
          "kernel w_old (computation) over [4] replicated\n    reads    w\n    computes w.old\n"
          "    writes   w.old\n") &&
          Contains("reads    sum_4, w.old\n    computes change"));
}

TEST_CASE("an application's cast of a state to its own dtype is no copy") {
  Program p("twice", two_ranks());
  const Value w = p.state("w", f32, {4}, replicated);
  update(w, cast(w, f32).named("same") * 2);
  CHECK(kernel_names(p) == std::vector<std::string>{"w_new"});
}

TEST_CASE("in the kernel that overwrites a state its old value needs no copy") {
  Program p("difference", two_ranks());
  const Value w = p.state("w", f32, {4}, replicated);
  const Value w1 = update(w, w * 2);
  p.output("change", (w1 - w).named("change"));
  CHECK_THAT(plan_of(after(p, Schedule().fuse("k", "computation", {"w.new", "change"}))),
             !Contains("w.old"));
}

TEST_CASE("a state that other ranks overwrite from inside the kernel that reads it gets a copy") {
  Program p("passed_on", two_ranks());
  const Value w = p.state("w", f32, {4}, local);
  update(w, send(w * 2).named("sent"));
  CHECK_THAT(plan_of(after(p, Schedule().fuse("k", "send", {"sent", "w.new"}))),
             Contains("w.old  "));
}

TEST_CASE("states that swap need one copy") {
  Program p("swap", two_ranks());
  const Value a = p.state("a", f32, {4}, replicated);
  const Value b = p.state("b", f32, {4}, replicated);
  update(a, b);
  update(b, a);
  CHECK(steps_of(p) ==
        "  1. kernel b_old (computation) over [4] replicated\n"
        "    reads    b\n"
        "    computes b.old\n"
        "    writes   b.old\n"
        "  2. kernel b_new (computation) over [4] replicated\n"
        "    reads    a\n"
        "    writes   b\n"
        "  3. kernel a_new (computation) over [4] replicated\n"
        "    reads    b.old\n"
        "    writes   a\n");
}

TEST_CASE(
    "a reader that needs another result of the kernel that overwrites the state gets a copy") {
  Momentum step;
  step.p.output("y", (step.w * sum(step.m1).named("total")).named("y"));
  const Program p = after(step.p, Schedule().fuse("k", "computation", {"m.new", "w.new"}));
  CHECK_THAT(plan_of(p), Contains("w.old  "));
  CHECK(kernel_names(p) == std::vector<std::string>{"w_old", "k", "total", "y"});
}
