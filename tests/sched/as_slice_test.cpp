// as_slice: states that stay sliced, and those that cannot.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;
using Names = std::vector<std::string>;

namespace {

const Schedule on_slices = Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"});

}  // namespace

TEST_CASE("a state whose update gathers a slice holds the slice instead") {
  const Momentum before;
  const Program p = after(before.p, Schedule(on_slices).as_slice("m"));
  CHECK(type_of(p, "m") == "m: f32[n] sliced(0)");
  CHECK(type_of(p, "m.new") == "m.new: f32[n] sliced(0)");
  CHECK(operands(p, "m.new") == Names{"m", "m.slice"});
  CHECK(type_of(p, "multiply_6") == "multiply_6: f32[n] sliced(0)");
  CHECK(type_of(p, "w") == "w: f32[n] replicated");
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("every reader of the state is computed on slices") {
  Momentum before;
  const Value doubled = (before.m * 2).named("doubled");
  const Value other = before.p.state("other", f32, {before.n}, sliced(0));
  update(other, doubled + before.m);
  before.p.output("total", sum(doubled));
  const Program p = after(before.p, Schedule(on_slices).as_slice("m"));
  CHECK(type_of(p, "doubled") == "doubled: f32[n] sliced(0)");
  CHECK(type_of(p, "other.new") == "other.new: f32[n] sliced(0)");
  CHECK(type_of(p, ir::graph_of(p)->at(ir::graph_of(p)->outputs()[0].value).name)
            .ends_with("f32[] replicated"));
}

TEST_CASE("along several axes the state is sliced along the gather's") {
  Program p("grid", Mesh({{"pp", 2}, {"tp", 3}}));
  const Value m = p.state("m", f32, {4, 6}, Layout::on({{"pp", sliced(0)}}));
  const Value x = p.input("x", f32, {4, 6}, Layout::on({{"pp", sliced(0)}, {"tp", sliced(1)}}));
  update(m, all_gather(x, "tp").named("whole"));
  const Program q = after(p, Schedule().as_slice("m"));
  CHECK(type_of(q, "m") == "m: f32[4, 6] {pp: sliced(0), tp: sliced(1)}");
}

TEST_CASE("a rank's slice of a state is not exchanged for another one") {
  Program p("grid", Mesh({{"a", 2}, {"b", 2}}));
  const Value m = p.state("m", f32, {8}, Layout::on({{"b", sliced(0)}}));
  const Value x = p.input("x", f32, {8}, Layout::on({{"a", sliced(0)}}));
  update(m, all_gather(x, "a").named("whole"));
  CHECK(reason(p, Schedule().as_slice("m")) ==
        "'m' (state) is sliced(0) over 'b' already, and slices over 'a' as well, which comes first "
        "in the mesh, are no parts of those; leave it so, or declare it replicated over 'b'");
}

TEST_CASE("a state that is sliced like its update drops the gather") {
  Program p("sliced", two_ranks());
  const Value m = p.state("m", f32, {4}, sliced(0));
  update(m, all_gather(p.input("x", f32, {4}, sliced(0))));
  const Program q = after(p, Schedule().as_slice("m"));
  CHECK(operands(q, "m.new") == Names{"m", "x"});
}

TEST_CASE("only states can be kept sliced") {
  const Momentum step;
  CHECK(reason(step.p, Schedule().as_slice("g")) ==
        "'g' (input) is no state; only states can be kept sliced");
  CHECK(reason(step.p, Schedule().as_slice("mm")) ==
        "program 'step' has no value 'mm'; did you mean 'm'?");
}

TEST_CASE("a state that is never updated is not sliced") {
  Momentum step;
  (void)step.p.state("table", f32, {step.n}, replicated);
  CHECK(reason(step.p, Schedule().as_slice("table")) ==
        "'table' (state) is never updated, so every rank reads the whole of it; declare it sliced "
        "instead");
}

TEST_CASE("a state whose update is computed whole is not sliced") {
  const Momentum step;
  CHECK(reason(step.p, Schedule().as_slice("m")) ==
        "the update of 'm' (state) writes 'add_7' (add), which is computed whole; do 'split "
        "op=avg' and 'reorder all_gather=avg.all_gather before=[m.new, w.new]' first");
}

TEST_CASE("a state whose update is in a kernel is not sliced") {
  const Momentum step;
  const Schedule fused = Schedule(on_slices).as_slice("m").dead().fuse(
      "k", "all_reduce", {"avg.reduce_scatter", "w.all_gather", "w.new"});
  CHECK(reason(step.p, Schedule(fused).as_slice("w")) ==
        "'w.new' (update) is in kernel 'k' already; keep the state sliced before fusing");
  Program gathers("gathers", two_ranks());
  const Value w = gathers.state("w", f32, {4}, replicated);
  const Value v = gathers.state("v", f32, {4}, replicated);
  const Value x = reduce_scatter(gathers.input("x", f32, {4}, local), sum).named("x.slice");
  const Value whole = all_gather((x * 2).named("twice")).named("whole");
  update(w, whole);
  update(v, whole);
  CHECK(reason(gathers,
               Schedule().fuse("k", "all_reduce", {"x.slice", "whole", "w.new"}).as_slice("v")) ==
        "'whole' (all_gather) is in kernel 'k' already; keep the state sliced before fusing");
}

TEST_CASE("a state over which the update broadcasts is not sliced") {
  Program p("rows", two_ranks());
  update(p.state("matrix", f32, {4, 6}, replicated),
         all_gather(p.input("row", f32, {6}, sliced(0))));
  CHECK(reason(p, Schedule().as_slice("matrix")) ==
        "'matrix.new' (update) broadcasts its value over the state; a slice of the value is no "
        "slice of the state");
}

TEST_CASE("a state that is local or sliced otherwise stays so") {
  Program p("columns", two_ranks());
  update(p.state("m", f32, {4, 6}, sliced(1)),
         all_gather(p.input("x", f32, {4, 6}, sliced(0))).named("whole"));
  update(p.state("own", f32, {4, 6}, local),
         ir::value_of(ir::graph_of(p), ir::graph_of(p)->require("whole")));
  CHECK(reason(p, Schedule().as_slice("m")) ==
        "'m' (state) is sliced(1), and its update gathers what is sliced(0); only a replicated "
        "state can be kept sliced");
  CHECK(reason(p, Schedule().as_slice("own")) ==
        "'own' (state) is local, and its update gathers what is sliced(0); only a replicated state "
        "can be kept sliced");
}

TEST_CASE("a state that something reads whole stays whole") {
  Momentum step;
  step.p.output("y", (step.m * 2).named("y"));
  CHECK(reason(step.p, Schedule(on_slices).as_slice("m")) ==
        "'m' (state) is read whole by 'y' (multiply), the output 'y'; leave the state replicated");
  const Momentum other;
  CHECK_THAT(
      reason(other.p, Schedule().split("avg").reorder("avg.all_gather", {"m.new"}).as_slice("m")),
      Contains("'m' (state) is read whole by 'w.new' (update): in program 'step', 'w.new' "
               "(update): along axis 'world' 'w' is f32[n] replicated and ") &&
          Contains("; do 'reorder all_gather=m.all_gather before=[w.new]' first"));
}

TEST_CASE("a state is not sliced where that would break a kernel made before") {
  Momentum step;
  const Value q = step.p.input("q", f32, {step.n}, replicated);
  step.p.output("a", sum((step.m * q).named("mq")));
  step.p.output("b", sum((q * 3).named("q3")));
  CHECK(reason(step.p, Schedule(on_slices).fuse("k", "computation", {"mq", "q3"}).as_slice("m")) ==
        "kernel 'k' cannot be: one kernel runs over one domain, but its results differ: q3: f32[n] "
        "replicated and mq: f32[n] sliced(0); make two kernels");
}

TEST_CASE("states whose update gathers are the candidates") {
  const Momentum step;
  CHECK(legal_candidates(step.p, "as_slice").empty());
  CHECK(legal_candidates(after(step.p, on_slices), "as_slice") ==
        Names{"as_slice state=w", "as_slice state=m"});
}

TEST_CASE("a slice of a scattered state is one buffer") {
  Program p("scattered", two_ranks());
  const Dim n = p.dim("n", 8);
  update(p.scattered_state("m", f32, n, replicated),
         all_gather((p.input("x", f32, {n}, sliced(0)) * 2).named("twice")).named("whole"));
  CHECK(node(p, "m").attributes.scattered);
  const Program sliced_state = after(p, Schedule().as_slice("m"));
  CHECK(type_of(sliced_state, "m") == "m: f32[n] sliced(0)");
  CHECK_FALSE(node(sliced_state, "m").attributes.scattered);
}
