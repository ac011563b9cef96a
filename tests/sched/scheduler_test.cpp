// Schedules written with handles: they are the same data as by names, and every call is checked.
#include "coconet/scheduler.h"

#include <catch2/catch.hpp>

#include "coconet/error.h"
#include "coconet/programs.h"
#include "refusal.h"
#include "sched/transform.h"

using namespace coconet;
using Catch::Matchers::Contains;

namespace {

/// Adam on two ranks, and its handles.
struct Adam {
  Program p{"adam", Mesh({{"world", 2}})};
  Dim n = p.dim("n");
  Value g = p.input("g", f32, {n}, local);
  Value w = p.state("w", f32, {n}, replicated);
  Value m = p.state("m", f32, {n}, replicated), v = p.state("v", f32, {n}, replicated);
  Value avg = all_reduce(g, mean).named("avg");
  Value m1 = update(m, 0.9f * m + 0.1f * avg);
  Value v1 = update(v, 0.999f * v + 0.001f * avg * avg);
  Value w1 = update(w, w - p.scalar("lr") * m1 / (sqrt(v1) + 1e-8f));
};

}  // namespace

TEST_CASE("handles give the schedule that names give") {
  Adam adam;
  Scheduler s(adam.p, "adam-fused");
  const auto [sum, gathered] = s.split(adam.avg);
  const Handles whole = s.reorder(gathered, {adam.m1, adam.v1, adam.w1});
  CHECK(whole.size() == 3);
  s.as_slice(adam.m);
  s.as_slice(adam.v);
  s.dead();
  CHECK(s.fuse("adam_fused", {sum, adam.m1, adam.v1, whole, adam.w1}) == "adam_fused");
  const Schedule by_name =
      Schedule("adam-fused")
          .split("avg")
          .reorder("avg.all_gather", {"m.new", "v.new", "w.new"})
          .as_slice("m")
          .as_slice("v")
          .dead()
          .fuse("adam_fused", "all_reduce",
                {"avg.reduce_scatter", "m.new", "v.new", "w.all_gather", "w.new"});
  CHECK(s.schedule().json() == by_name.json());
  CHECK(s.program().json() == by_name.apply(adam.p).back().json());
}

TEST_CASE("the kind of a kernel is that of its collectives") {
  const auto kind_after = [](auto make) {
    Adam adam;
    Scheduler s(adam.p);
    make(adam, s);
    const std::string last = s.schedule().step(s.schedule().size() - 1);
    const auto at = last.find("kind=") + 5;
    return last.substr(at, last.find(' ', at) - at);
  };
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", a.avg); }) == "all_reduce");
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", {a.m1, a.v1}); }) == "computation");
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", s.split(a.avg).first); }) ==
        "reduce_scatter");
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", s.split(a.avg).second); }) ==
        "all_gather");
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", s.split_at_root(a.avg).first); }) ==
        "reduce");
  CHECK(kind_after([](Adam& a, Scheduler& s) { s.fuse("k", s.split_at_root(a.avg).second); }) ==
        "broadcast");
  CHECK(kind_after([](Adam& a, Scheduler& s) {
          const auto [to, from] = s.split_at_root(a.avg);
          s.fuse("k", {to, from});
        }) == "all_reduce");
}

TEST_CASE("a hierarchical split gives its three collectives") {
  Program p("sum", Mesh({{"node", 2}, {"gpu", 2}}));
  const Value x = p.input("x", f32, {p.dim("n")}, local);
  const Value total = all_reduce(all_reduce(x, sum, "gpu"), sum, "node").named("total");
  p.output("y", total);
  Scheduler s(p);
  const auto [scattered, summed, gathered] = s.split_hierarchical(total);
  CHECK(scattered.name() == "total.reduce_scatter");
  CHECK(summed.name() == "total.all_reduce");
  CHECK(gathered.name() == "total.all_gather");
}

TEST_CASE("an illegal call throws at once, and changes nothing") {
  Adam adam;
  Scheduler s(adam.p, "mine");
  (void)s.split(adam.avg);
  const std::string before = s.schedule().json();
  CHECK_THAT(refusal<ScheduleError>([&] { (void)s.split(adam.m1); }),
             Contains("schedule 'mine', step 2 (split op=m.new): 'm.new'") &&
                 Contains("only an all_reduce can be split"));
  CHECK_THAT(refusal<ScheduleError>([&] { (void)s.split(adam.avg); }),
             Contains("step 2 (split op=avg)"));
  CHECK_THAT(refusal<ScheduleError>([&] { s.as_slice("mm"); }), Contains("did you mean 'm'?"));
  CHECK_THAT(refusal<ScheduleError>([&] { (void)s.value("avg.reduce"); }), Contains("avg.reduce"));
  CHECK_THAT(refusal<ScheduleError>([&] {
               s.as_slice({adam.m, adam.v});
             }),
             Contains("as_slice takes one value, and got 2"));
  CHECK(s.schedule().json() == before);
  const Adam other;
  CHECK_THAT(refusal<ScheduleError>([&] { s.as_slice(other.m); }),
             Contains("as_slice: 'm' is a value of program 'adam'") &&
                 Contains("name values of the program that it was made for"));
}

TEST_CASE("legal steps are listed with the names that they take") {
  Adam adam;
  Scheduler s(adam.p);
  CHECK(s.legal() == std::vector<std::string>{
                         "split op=avg", "split op=avg into=reduce+broadcast",
                         "fuse kernel=adam_computation kind=computation ops=[m.new, v.new, w.new]",
                         "fuse kernel=adam_all_reduce kind=all_reduce ops=[avg]"});
  const auto [sum, gathered] = s.split(adam.avg);
  (void)s.reorder(gathered, {adam.m1, adam.v1, adam.w1});
  const std::vector<std::string> after = s.legal();
  for (const std::string step : {"as_slice state=m",
                                 "fuse kernel=adam_all_reduce kind=all_reduce "
                                 "ops=[avg.reduce_scatter, w.all_gather, w.new]"})
    CHECK(std::ranges::count(after, step) == 1);
  CHECK(std::ranges::none_of(after, [](const auto& step) { return step.starts_with("split"); }));
}
