// dead: what is dropped, and what is not.
#include <catch2/catch.hpp>

#include "ir/access.h"
#include "sched/subjects.h"

using namespace coconet;
using Names = std::vector<std::string>;

TEST_CASE("what no update and no output needs is dropped") {
  Momentum before;
  const Value unused = (before.w * 2).named("unused");
  (void)(unused + 1).named("unused too");
  before.p.output("y", (before.w * 3).named("y"));
  const Program p = after(before.p, Schedule().dead());
  CHECK(ir::graph_of(p)->find("unused") == -1);
  CHECK(ir::graph_of(p)->find("unused too") == -1);
  CHECK(ir::graph_of(p)->find("y") >= 0);
  CHECK(ir::graph_of(p)->find("w.new") >= 0);
  ir::verify(*ir::graph_of(p));
}

TEST_CASE("inputs, states and scalars stay, because the application gives them") {
  Program p("idle", two_ranks());
  (void)p.input("x", f32, {4}, local);
  (void)p.state("w", f32, {4}, replicated);
  (void)p.scalar("lr");
  CHECK(after(p, Schedule().dead()).str() == p.str());
}

TEST_CASE("the gather of a state that is kept sliced is dead") {
  const Momentum before;
  const Schedule sliced_state =
      Schedule().split("avg").reorder("avg.all_gather", {"m.new", "w.new"}).as_slice("m");
  CHECK(ir::graph_of(after(before.p, sliced_state))->find("m.all_gather") >= 0);
  CHECK(ir::graph_of(after(before.p, Schedule(sliced_state).dead()))->find("m.all_gather") == -1);
}

TEST_CASE("a kernel loses its dead members, and goes with the last one") {
  Momentum before;
  const Value unused = (before.w * 2).named("unused");
  (void)(unused * 2).named("end");
  const Program p = after(before.p, Schedule().fuse("k", "computation", {"unused"}).dead());
  CHECK(ir::graph_of(p)->fusions().empty());
}

TEST_CASE("dead is a candidate when something is dead") {
  Momentum step;
  CHECK(legal_candidates(step.p, "dead").empty());
  (void)(step.w * 2);
  CHECK(legal_candidates(step.p, "dead") == Names{"dead"});
}
