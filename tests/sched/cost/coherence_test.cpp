// What travels between the caches of ranks: counted by hand for plans of few steps.
#include "sched/cost/work.h"

#include <catch2/catch.hpp>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/access.h"

using namespace coconet;

namespace {

constexpr double bytes = 4000;  // of a whole tensor of 1000 f32

/// By step, of two ranks.
std::vector<double> lines_of(const Program& program, const Schedule& schedule) {
  std::vector<double> lines;
  const sched::Plan plan = sched::lower(*ir::graph_of(schedule.apply(program).back()));
  for (const sched::Work& step : sched::work_of(plan, {{"n", 1000}}).steps)
    lines.push_back(step.lines);
  return lines;
}

Program program_of_two() {
  return Program("p", Mesh({{"world", 2}}));
}

}  // namespace

TEST_CASE("an input that others have read once stays in their caches") {
  Program p = program_of_two();
  const Value x = p.input("x", f32, {p.dim("n")}, local);
  p.output("y", reduce_scatter(x, sum).named("y"));
  CHECK(lines_of(p, Schedule()) == std::vector<double>{0});
  CHECK(lines_of(p, Schedule().fuse("k", "reduce_scatter", {"y"})) == std::vector<double>{0});
}

TEST_CASE("what a step writes and others read travels to them, and back to be written again") {
  Program p = program_of_two();
  const Value x = p.input("x", f32, {p.dim("n")}, local);
  p.output("y", reduce_scatter((x + 1).named("made"), sum).named("y"));
  // Half of it is another rank's slice.
  const std::vector<double> expected = {bytes / 2, bytes / 2};
  CHECK(lines_of(p, Schedule().fuse("make", "computation", {"made"})) == expected);
  CHECK(
      lines_of(
          p, Schedule().fuse("make", "computation", {"made"}).fuse("k", "reduce_scatter", {"y"})) ==
      expected);
}

TEST_CASE("what others wrote travels to whoever reads it") {
  Program p = program_of_two();
  const Value x = p.input("x", f32, {p.dim("n")}, local);
  const Value total = all_reduce(x, sum).named("total");
  p.output("y", (total * 2).named("y"));
  // The next run's all_reduce writes what this one's kernel has read.
  const Schedule schedule =
      Schedule().fuse("k", "all_reduce", {"total"}).fuse("twice", "computation", {"y"});
  CHECK(lines_of(p, schedule) == std::vector<double>{bytes / 2, bytes / 2});
}

TEST_CASE("a rank alone finds everything in its own caches") {
  Program p("p", Mesh({{"world", 1}}));
  const Value x = p.input("x", f32, {p.dim("n")}, local);
  p.output("y", reduce_scatter((x + 1).named("made"), sum).named("y"));
  for (const double lines : lines_of(p, Schedule())) CHECK(lines == 0);
}
