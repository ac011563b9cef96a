// Patterns in schedules stand for the values that are called like them.
#include "sched/patterns.h"

#include <catch2/catch.hpp>
#include <string>

#include "coconet/error.h"
#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/access.h"
#include "refusal.h"

using namespace coconet;
using sched::is_like;

namespace {

/// SGD of three parameters, each with a gradient and an average of its own.
Program model() {
  Program p("model", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 10);
  const Value lr = p.scalar("lr");
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    const Value g = p.input("g" + number, f32, {n}, local);
    const Value w = p.state("w" + number, f32, {n}, replicated);
    update(w, w - lr * all_reduce(g, mean).named("avg" + number));
  }
  return p;
}

std::string refused(const Schedule& schedule) {
  return refusal<ScheduleError>([&] { (void)schedule.apply(model()); });
}

}  // namespace

TEST_CASE("a star stands for any characters, and for none") {
  CHECK(is_like("avg.all_gather", "avg*"));
  CHECK(is_like("avg", "avg*"));
  CHECK(is_like("avg", "*"));
  CHECK(is_like("", "*"));
  CHECK(is_like("layer3.bias.new", "layer*.new"));
  CHECK(is_like("aXbXc", "a*X*c"));
  CHECK(is_like("abab", "*ab"));
  CHECK_FALSE(is_like("avg", "avg.*"));
  CHECK_FALSE(is_like("xavg", "avg*"));
  CHECK_FALSE(is_like("avg", "av"));
  CHECK_FALSE(is_like("", "a"));
  // As quick as any other.
  CHECK_FALSE(is_like(std::string(4000, 'a'), "*a*a*a*a*a*a*a*a*a*a*b"));
}

TEST_CASE("brackets stand for one character that is not in them") {
  CHECK(is_like("m", "[!w]*"));
  CHECK(is_like("previous.new", "[!w]*.new"));
  CHECK(is_like("aw", "*[!xyz]"));
  CHECK(is_like("abcab", "*[!b]b"));
  CHECK_FALSE(is_like("w", "[!w]*"));
  CHECK_FALSE(is_like("w.new", "[!w]*.new"));
  CHECK_FALSE(is_like("", "[!w]*"));
  CHECK_FALSE(is_like("az", "*[!xyz]"));
  // Names may have brackets of their own.
  CHECK(is_like("x[0].new", "x[0]*"));
  CHECK(is_like("x[!", "x[!*"));
}

TEST_CASE("patterns give the program that the names give") {
  const Schedule by_pattern = Schedule("all").split("avg*").fuse("step", "computation", {"w0.n*"});
  Schedule by_name("all");
  for (const char* const name : {"avg0", "avg1", "avg2"}) by_name.split(name);
  by_name.fuse("step", "computation", {"w0.new"});
  // But for where values come from, which is the step as it is written.
  CHECK(by_pattern.apply(model()).back().str() == by_name.apply(model()).back().str());
  CHECK_THAT(by_pattern.apply(model()).back().json(),
             Catch::Contains("\"origin\": \"split op=avg*\""));
  // They stay patterns in the data.
  CHECK(Schedule::parse(by_pattern.json()).step(0) == "split op=avg*");
}

TEST_CASE("a pattern in a single argument stands for values of the op that it is for only") {
  const Program program = model();
  const auto states_of = [&](const char* pattern) {
    std::string states;
    const sched::Step step = sched::complete({"as_slice", {{"state", std::string(pattern)}}});
    for (const sched::Step& one : sched::expand(*ir::graph_of(program), step))
      states += one.text("state") + " ";
    return states;
  };
  CHECK(states_of("*") == "w0 w1 w2 ");
  CHECK(states_of("w1") == "w1 ");
  CHECK(states_of("*1*") == "w1 ");
}

TEST_CASE("a pattern that says what is left out may stand for nothing") {
  Program program("p", Mesh({{"world", 2}}));
  const Dim n = program.dim("n");
  const Value w = program.state("w", f32, {n}, replicated);
  update(w, all_reduce(program.input("g", f32, {n}, local), sum).named("total"));
  const Schedule schedule =
      Schedule("s").as_slice("[!w]*").fuse("k", "all_reduce", {"total", "[!w]*.new"});
  const Program last = schedule.apply(program).back();
  CHECK(ir::graph_of(last)->fusions().at(0).members.size() == 1);
}

TEST_CASE("a pattern leaves states alone that have no slices") {
  Program p("sums", Mesh({{"world", 2}}));
  const Dim n = p.dim("n", 10);
  const Value w = p.state("w", f32, {n}, replicated), count = p.state("count", f32, {}, replicated);
  const Value g = p.state("g", f32, {n}, local);  // each rank's own
  update(w, w - all_reduce(g, mean).named("avg"));
  update(count, count + 1);
  const sched::Step step = sched::complete({"as_slice", {{"state", std::string("*")}}});
  const std::vector<sched::Step> steps = sched::expand(*ir::graph_of(p), step);
  REQUIRE(steps.size() == 1);
  CHECK(steps.front().text("state") == "w");
}

TEST_CASE("a pattern that stands for nothing is refused") {
  CHECK(refused(Schedule("s").split("grad*")) ==
        "schedule 's', step 1 (split op=grad*): split: 'grad*' is like the name of no all_reduce; "
        "* stands for any characters, and [!w] for one that is not w");
  CHECK(refused(Schedule("s").fuse("k", "computation", {"w0.new", "x*"})) ==
        "schedule 's', step 1 (fuse kernel=k kind=computation ops=[w0.new, x*]): fuse: 'x*' is "
        "like the name of no value; * stands for any characters, and [!w] for one that is not w");
}
