// What a refusal says is to be done instead: each remedy is followed, and is legal.
#include <catch2/catch.hpp>

#include "sched/subjects.h"

using namespace coconet;
using Catch::Contains;
using Names = std::vector<std::string>;

namespace {

/// Clips the gradient to a norm: the momentum takes it as it is, the step is scaled.
struct Clipped {
  Program p{"clipped", two_ranks()};
  Dim n = p.dim("n", 64);
  Value g = p.input("g", f32, {n}, local);
  Value w = p.state("w", f32, {n}, replicated), m = p.state("m", f32, {n}, replicated);
  Value gf = (all_reduce(g, mean).named("avg") * 0.5).named("gf");
  Value gnorm = sum(square(gf).named("squares")).named("gnorm");
  Value m1 = update(m, 0.9 * m + gf);
  Value w1 = update(w, w - m1 * rsqrt(gnorm));
};

const Names whole_step = {"avg.reduce_scatter", "m.new", "w.all_gather", "w.new"};

/// The schedule that leaves the norm of the gradient behind the gather of it.
Schedule norm_left_behind() {
  return Schedule()
      .split("avg")
      .reorder("avg.all_gather", {"m.new"})
      .reorder("m.all_gather", {"w.new"})
      .as_slice("m")
      .dead();
}

}  // namespace

TEST_CASE("a cycle through a reduction behind a gather says what to reorder") {
  const Clipped step;
  const Schedule left_behind = norm_left_behind();
  CHECK(reason(step.p, Schedule(left_behind).fuse("k", "all_reduce", whole_step)) ==
        "the kernel would wait for itself (a cycle): 'gf' (multiply) is computed from its ops and "
        "read by 'm.slice' (add); do 'reorder all_gather=gf.all_gather before=[gnorm]' first");
  CHECK(reason(step.p, Schedule(left_behind)
                           .reorder("gf.all_gather", {"gnorm"})
                           .fuse("k", "all_reduce", whole_step)) == "(accepted)");
  // Fusing 'gf' too, as a reader of the first half may think, does not help.
  Names with_gf = whole_step;
  with_gf.emplace_back("gf");
  CHECK_THAT(reason(step.p, Schedule(left_behind).fuse("k", "all_reduce", with_gf)),
             !Contains("(accepted)") && Contains("before=[gnorm]' first"));
}

TEST_CASE("a cycle through what the kernel can hold says to fuse it") {
  const Momentum step;
  CHECK(
      reason(step.p, Schedule().fuse("k", "computation", {"add_7", "w.new"})) ==
      "the kernel would wait for itself (a cycle): 'm.new' (update) is computed from its ops and "
      "read by 'multiply_9' (multiply); fuse 'm.new' (update) too, or leave out 'w.new' (update)");
  CHECK(reason(step.p, Schedule().fuse("k", "computation", {"add_7", "w.new", "m.new"})) ==
        "(accepted)");
  CHECK(reason(step.p, Schedule().fuse("k", "computation", {"add_7"})) == "(accepted)");
}

TEST_CASE("a cycle through another kernel says to make one of both") {
  Program p("crossed", two_ranks());
  const Value x = p.input("x", f32, {4}, replicated);
  const Value a = update(p.state("s", f32, {4}, replicated), x * 2).named("a");
  const Value b = update(p.state("t", f32, {4}, replicated), a + x).named("b");
  update(p.state("u", f32, {4}, replicated), b * a).named("c");
  const Schedule middle = Schedule().fuse("middle", "computation", {"b"});
  CHECK(reason(p, Schedule(middle).fuse("k", "computation", {"a", "c"})) ==
        "the kernel would wait for itself (a cycle): kernel 'middle' reads what this one computes, "
        "and 'multiply_8' (multiply) reads its 'b' (update); make one kernel of both, in place of "
        "'middle', or leave out 'c' (update)");
  CHECK(reason(p, Schedule().fuse("k", "computation", {"a", "c", "b"})) == "(accepted)");
  CHECK(reason(p, Schedule(middle).fuse("k", "computation", {"a"})) == "(accepted)");
}

TEST_CASE("a kernel without its reduce_scatter says which one to name") {
  const Clipped step;
  const Schedule slices =
      Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"}).as_slice("m").dead();
  CHECK(reason(step.p, Schedule(slices).fuse("k", "all_reduce", {"m.new", "w.all_gather"})) ==
        "'kind' is 'all_reduce', but a kernel of these ops is of kind 'all_gather', because of "
        "'w.all_gather' (all_gather); fuse 'avg.reduce_scatter' (reduce_scatter) too");
  CHECK(reason(step.p, Schedule(slices).fuse("k", "all_reduce",
                                             {"m.new", "w.all_gather", "avg.reduce_scatter"})) ==
        "(accepted)");
  CHECK(reason(step.p, Schedule(slices).fuse("k", "all_gather", {"m.new", "w.all_gather"})) ==
        "(accepted)");
  const Schedule taken = Schedule(slices).fuse("first", "reduce_scatter", {"avg.reduce_scatter"});
  CHECK_THAT(reason(step.p, Schedule(taken).fuse("k", "all_reduce", {"w.all_gather"})),
             Contains("'all_gather', because of 'w.all_gather' (all_gather); give that kind"));
  CHECK(reason(step.p, Schedule(taken).fuse("k", "reduce_scatter", {"m.new", "w.all_gather"})) ==
        "'kind' is 'reduce_scatter', but a kernel of these ops is of kind 'all_gather', because of "
        "'w.all_gather' (all_gather); give that kind, or none");
  Program p("none", two_ranks());
  p.output("y", (p.input("x", f32, {4}, replicated) * 2).named("y"));
  CHECK(reason(p, Schedule().fuse("k", "send", {"y"})) ==
        "'kind' is 'send', but a kernel of these ops is of kind 'computation', as none of them is "
        "a collective; give that kind, or none");
}

TEST_CASE("a value that a split replaced is told by what it became") {
  const Clipped step;
  const Schedule split = Schedule().split("avg");
  CHECK(reason(step.p, Schedule(split).reorder("avg", {"m.new"})) ==
        "program 'clipped' has no value 'avg' any more: a split made 'avg.reduce_scatter' and "
        "'avg.all_gather' of it; name 'avg.all_gather' for what 'avg' was");
  CHECK(reason(step.p, Schedule(split).reorder("avg.all_gather", {"m.new"})) == "(accepted)");
  CHECK(reason(step.p,
               Schedule().split("avg", "reduce+broadcast").fuse("k", "all_reduce", {"avg"})) ==
        "program 'clipped' has no value 'avg' any more: a split made 'avg.reduce' and "
        "'avg.broadcast' of it; name 'avg.broadcast' for what 'avg' was");
  const Schedule moved = Schedule(split).reorder("avg.all_gather", {"m.new", "w.new"});
  CHECK(reason(step.p, Schedule(moved).split("avg")) ==
        "program 'clipped' has no value 'avg' any more: a split made 'avg.reduce_scatter' of it, "
        "and what read 'avg' reads that");
  CHECK(reason(step.p, Schedule(moved).reorder("avg.all_gather", {"w.new"})) ==
        "program 'clipped' has no value 'avg.all_gather' any more: all that read it was reordered, "
        "and reads 'avg.reduce_scatter'; gathered is 'm.all_gather', 'w.all_gather'");
}

TEST_CASE("a state that cannot be sliced yet is told what to reorder") {
  const Clipped step;
  CHECK(reason(step.p, Schedule().split("avg").as_slice("m")) ==
        "the update of 'm' (state) writes 'add_10' (add), which is computed whole; do 'reorder "
        "all_gather=avg.all_gather before=[m.new, w.new]' first");
  CHECK(
      reason(step.p,
             Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"}).as_slice("m")) ==
      "(accepted)");
}
