// Test cases that lost_rank_test.cpp runs in processes of their own, whose kernels keep rank 1 from
// its mailboxes for longer than the others wait for it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/exchange/kernel_subjects.h"
#include "sample.h"
#include "sched/knobs.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Matches;

namespace {

constexpr std::int64_t chunked = 5000;  // several chunks of every slice

/// Those of every combination that sends chunks through mailboxes.
std::vector<Knobs> all_of_mailboxes() {
  std::vector<Knobs> all;
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (!sched::works_in_place(knobs)) all.push_back(knobs);
    }
  }
  REQUIRE(all.size() > 3);
  return all;
}

/// What ranks throw in a step of one kernel, "exchanged", that does `collective` and nothing else.
std::vector<RankOutcome> exchange(int ranks, const std::string& kind, const Knobs& knobs,
                                  Value (*collective)(const Value& x),
                                  std::int64_t elements = chunked) {
  return outcomes_of(ranks, [&](World& world) {
    Program program("exchange", Mesh::over(world));
    const Value x = program.input("x", f32, {elements}, local);
    program.output("y", collective(x).named("moved"));
    Executable step =
        compile(program, Schedule("exchange").fuse("exchanged", kind, {"moved"}, knobs), world);
    (void)step.data<float>("x");
    step.run();
  });
}

/// The outcomes of `run` with each of `all`, several at a time, as all that they do is wait.
template <class Run>
std::vector<std::vector<RankOutcome>> side_by_side(const std::vector<Knobs>& all, const Run& run) {
  constexpr std::size_t at_a_time = 4;
  std::vector<std::vector<RankOutcome>> outcomes(all.size());
  std::vector<std::jthread> threads;
  for (std::size_t first = 0; first < at_a_time; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t i = first; i < all.size(); i += at_a_time) outcomes[i] = run(all[i]);
    });
  }
  threads.clear();
  return outcomes;
}

/// The sentence of a rank that waited, with `what_for` and `why` as regular expressions.
std::string waited(const std::string& rank, const std::string& what_for, const std::string& peer,
                   const std::string& why) {
  return "rank " + rank + " waited in kernel 'exchanged' \\(step 1 of 1\\), block [01], " +
         what_for + " \\(expected flag [0-9]+, found [0-9]+\\) for rank " + peer + ", " + why;
}

}  // namespace

TEST_CASE("a rank that does not fill mailboxes", "[.child][no-message]") {
  std::vector<Knobs> all = all_of_mailboxes();
  std::erase_if(all, [](const Knobs&) { return !draw(); });
  const auto outcomes_of_all = side_by_side(all, [](const Knobs& knobs) {
    return exchange(3, "all_reduce", knobs, [](const Value& x) { return all_reduce(x, sum); });
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].algorithm << ", " << all[i].protocol);
    const std::vector<RankOutcome>& outcomes = outcomes_of_all[i];
    for (const std::size_t rank : {0U, 2U}) {
      CHECK(outcomes[rank].kind == "CommError");
      CHECK_THAT(
          outcomes[rank].what,
          Matches(waited(
              std::to_string(rank), "to receive a chunk", "[0-2]",
              "(.* for rank 1, )?which did not come (within 1 s|before rank [02] gave up).*")));
    }
  }
}

TEST_CASE("a rank that does not fill the lines that teams of threads wait for",
          "[.child][no-line]") {
  const auto outcomes = exchange(2, "all_reduce", knobs_of("ring", "ll128"),
                                 [](const Value& x) { return all_reduce(x, sum); });
  CHECK(outcomes[0].kind == "CommError");
  CHECK_THAT(outcomes[0].what,
             Matches(waited("0", "to receive a chunk", "1", "which did not come within 1 s.*")));
}

TEST_CASE("a rank that does not empty mailboxes", "[.child][no-room]") {
  std::vector<Knobs> all;
  for (const sched::KnobChoice& protocol : sched::protocol_choices())
    all.push_back(knobs_of("ring", protocol.name));
  const auto outcomes_of_all = side_by_side(all, [](const Knobs& knobs) {
    return exchange(2, "broadcast", knobs, [](const Value& x) { return broadcast(x, 0); });
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].protocol);
    const std::vector<RankOutcome>& outcomes = outcomes_of_all[i];
    CHECK(outcomes[0].kind == "CommError");
    CHECK_THAT(outcomes[0].what, Matches(waited("0", "to send a chunk", "1", ".*")));
    // It finds what fitted, and misses the rest.
    CHECK(outcomes[1].kind == "CommError");
    CHECK_THAT(outcomes[1].what, Matches(waited("1", "to receive a chunk", "0", ".*")));
  }
}

TEST_CASE("a rank that has sent its chunks leaves", "[.child][leaves-early]") {
  const std::vector<Knobs> all = all_of_mailboxes();
  const auto outcomes_of_all = side_by_side(all, [](const Knobs& knobs) {
    return outcomes_of(2, [&](World& world) {
      Program program("leaves", Mesh::over(world));
      const Value x = program.input("x", f32, {7}, local);
      program.output("y", broadcast(x, 1).named("sent"));
      Executable step =
          compile(program, Schedule("leaves").fuse("sends", "broadcast", {"sent"}, knobs), world);
      std::ranges::fill(step.data<float>("x"), static_cast<float>(world.rank()));
      step.run();
      if (std::ranges::count(step.data<float>("y"), 1.0f) != 7)
        throw BackendError("rank 1 sent something else");
    });
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].algorithm << ", " << all[i].protocol);
    for (const RankOutcome& outcome : outcomes_of_all[i]) CHECK(outcome.what == "");
  }
}

TEST_CASE("a rank waits for chunks that it is to pass on", "[.child][passes-nothing-on]") {
  for (const std::string_view protocol : {"simple", "ll", "ll128"}) {
    const auto outcomes = exchange(
        3, "broadcast", knobs_of("ring", protocol), [](const Value& x) { return broadcast(x, 0); },
        7);
    INFO(protocol);
    CHECK(outcomes[1].kind == "CommError");
    CHECK(outcomes[2].kind == "CommError");
  }
}
