// fuse: kernels of an AllReduce, and what they may hold besides its collectives.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/subjects.h"

using namespace coconet;
using Names = std::vector<std::string>;

TEST_CASE("an all_reduce kernel needs both collectives") {
  const Momentum step;
  CHECK(reason(step.p, kernel({"w.new", "m.new"}, "all_reduce")) ==
        "'kind' is 'all_reduce', but a kernel of these ops is of kind 'computation', as none of "
        "them is a collective; do 'split op=avg' first and take what that makes");
  CHECK(reason(step.p, m_on_slices().fuse("k", "all_reduce", {"avg.reduce_scatter", "m.new"})) ==
        "'kind' is 'all_reduce', but a kernel of these ops is of kind 'reduce_scatter', because of "
        "'avg.reduce_scatter' (reduce_scatter); fuse 'w.all_gather' (all_gather) too");
}

TEST_CASE("an all_reduce kernel takes one collective on each side") {
  const Momentum step;
  const Schedule both_gathered =
      Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"});
  CHECK(reason(step.p, Schedule(both_gathered)
                           .fuse("k", "all_reduce",
                                 {"avg.reduce_scatter", "m.all_gather", "w.all_gather"})) ==
        "two collectives on one side: 'm.all_gather' (all_gather) and 'w.all_gather' (all_gather), "
        "and the kernel takes one reduce_scatter and one all_gather; do 'as_slice state=m' first "
        "and leave out 'm.all_gather' (all_gather), or do 'as_slice state=w' first and leave out "
        "'w.all_gather' (all_gather)");
  Program p("two", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4}, local), sum).named("x.slice");
  const Value y = reduce_scatter(p.input("y", f32, {4}, local), sum).named("y.slice");
  p.output("z", all_gather(x + y).named("z"));
  CHECK(reason(p, kernel({"x.slice", "y.slice", "z"}, "all_reduce")) ==
        "two collectives on one side: 'x.slice' (reduce_scatter) and 'y.slice' (reduce_scatter), "
        "and the kernel takes one reduce_scatter and one all_gather; leave out 'x.slice' "
        "(reduce_scatter), or leave out 'y.slice' (reduce_scatter)");
}

TEST_CASE("an all_reduce kernel takes no other collective and no reduction of a part") {
  Momentum step;
  const Value rows = step.p.input("rows", f32, {2, step.n}, replicated);
  step.p.output("y", sum(rows, {0}).named("y"));
  CHECK(reason(step.p, m_on_slices().fuse("k", "all_reduce",
                                          {"avg.reduce_scatter", "w.all_gather", "y"})) ==
        "'y' (reduction) cannot be in a kernel of kind 'all_reduce', which takes a reduce_scatter, "
        "pointwise ops, reductions of all that is sliced, an all_gather and updates");
}

TEST_CASE("a collective that nothing needs is no part of a kernel") {
  Program p("unread", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4}, local), sum).named("x.slice");
  (void)all_gather((x * 2).named("y")).named("whole");
  CHECK(reason(p, kernel({"x.slice", "whole"}, "all_reduce")) ==
        "no update and no output needs 'x.slice' (reduce_scatter); drop it with dead");
}

TEST_CASE("an all_reduce kernel slices alike on both sides") {
  Program p("alike", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4, 6}, local), sum, 0).named("x.slice");
  const Value y = p.input("y", f32, {4, 6}, sliced(1));
  p.output("total", sum(x));
  p.output("whole", all_gather((y * 2).named("y2")).named("whole"));
  CHECK(reason(p, kernel({"x.slice", "whole"}, "all_reduce")) ==
        "'x.slice' (reduce_scatter) makes x.slice: f32[4, 6] sliced(0) but 'whole' (all_gather) "
        "gathers y2: f32[4, 6] sliced(1); they must slice alike");
}

TEST_CASE("an all_reduce kernel computes what it gathers") {
  Program p("elsewhere", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4}, local), sum).named("x.slice");
  p.output("total", sum(x));
  p.output("whole", all_gather(p.input("y", f32, {4}, sliced(0))).named("whole"));
  CHECK(reason(p, kernel({"x.slice", "whole"}, "all_reduce")) ==
        "'whole' (all_gather) gathers 'y' (input), which the kernel does not compute; leave out "
        "'x.slice' (reduce_scatter) and make it a kernel of kind 'all_gather'");
}

TEST_CASE("computation before the reduce_scatter stays outside") {
  Program p("scaled", two_ranks());
  const Value scaled = (p.input("x", f32, {4}, local) * 2).named("scaled");
  const Value x = reduce_scatter(scaled, sum).named("x.slice");
  p.output("whole", all_gather((x + 1).named("y")).named("whole"));
  CHECK(members(after(p, kernel({"x.slice", "whole"}, "all_reduce")), "k") ==
        Names{"x.slice", "y", "whole"});
  CHECK(reason(p, kernel({"scaled", "x.slice", "whole"}, "all_reduce")) ==
        "'scaled' (multiply) comes before 'x.slice' (reduce_scatter); the kernel takes computation "
        "between the collectives: leave it out");
}

TEST_CASE("what reads the gathered value is not in the kernel that gathers it") {
  Momentum step;
  const Value other = step.p.state("other", f32, {step.n}, replicated);
  step.p.output("y", (step.w1 * 2).named("y"));
  update(other, step.w1);
  const Names ops = {"avg.reduce_scatter", "m.new", "w.all_gather", "w.new"};
  const auto with = [&](const char* name) {
    Names all = ops;
    all.emplace_back(name);
    return reason(step.p, m_on_slices().fuse("k", "all_reduce", all));
  };
  CHECK(with("y") ==
        "'y' (multiply) reads 'w.new' (update), which is gathered in the same kernel; leave 'y' "
        "(multiply) out");
  CHECK(with("other.new") ==
        "'other.new' (update) reads 'w.new' (update), which is gathered in the same kernel; leave "
        "'other.new' (update) out");
  Program p("read", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4}, local), sum).named("x.slice");
  p.output("z", (all_gather((x + 1).named("y")).named("whole") * 2).named("z"));
  CHECK(reason(p, kernel({"x.slice", "whole", "z"}, "all_reduce")) ==
        "'z' (multiply) reads 'whole' (all_gather) in the kernel that gathers it; do 'reorder "
        "all_gather=whole before=[z]' first and take what that makes, or leave out 'z' (multiply)");
}

TEST_CASE("a kernel gathers into states that lie like what it gathers") {
  Program p("lies", two_ranks());
  const Value x = reduce_scatter(p.input("x", f32, {4}, local), sum).named("x.slice");
  const Value whole = all_gather((x + 1).named("y")).named("whole");
  update(p.state("part", f32, {4}, sliced(0)), whole);
  update(p.state("matrix", f32, {3, 4}, replicated), whole);
  CHECK(reason(p, kernel({"x.slice", "whole", "part.new"}, "all_reduce")) ==
        "'part.new' (update) writes what 'whole' (all_gather) gathers, whole: f32[4] replicated, "
        "into part: f32[4] sliced(0); the kernel gathers into a tensor of the same shape and "
        "layout only; leave out 'part.new' (update), or do 'as_slice state=part' first");
  CHECK(reason(p, kernel({"x.slice", "whole", "matrix.new"}, "all_reduce")) ==
        "'matrix.new' (update) writes what 'whole' (all_gather) gathers, whole: f32[4] replicated, "
        "into matrix: f32[3, 4] replicated; the kernel gathers into a tensor of the same shape and "
        "layout only; leave out 'matrix.new' (update)");
}
