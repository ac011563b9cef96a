// Test cases that lost_rank_test.cpp runs in processes of their own, whose kernels keep rank 1 from
// its mailboxes for longer than the others wait for it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/rank_outcomes.h"
#include "sched/knobs.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

namespace {

constexpr std::int64_t n = 5000;  // several chunks of every slice

Knobs knobs_of(std::string_view algorithm, std::string_view protocol) {
  Knobs knobs;
  knobs.algorithm = algorithm;
  knobs.protocol = protocol;
  knobs.chunk_bytes = 1024;
  return knobs;
}

/// What ranks throw in a step of one kernel, "exchanged", that does `collective` and nothing else.
std::vector<RankOutcome> exchange(int ranks, const std::string& kind, const Knobs& knobs,
                                  Value (*collective)(const Value& x)) {
  return outcomes_of(ranks, [&](World& world) {
    Program program("exchange", Mesh::over(world));
    const Value x = program.input("x", f32, {n}, local);
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

/// The sentence of a rank that waited, with what `for` is as a regular expression.
std::string waited(const std::string& rank, const std::string& peer, const std::string& what_for) {
  return "rank " + rank + " waited 1 s for rank " + peer +
         " in kernel 'exchanged' \\(step 1 of 1\\), " + what_for +
         ", block [01]: expected flag [0-9]+, found [0-9]+; that rank is late, stuck or gone "
         "\\(COCONET_TIMEOUT_S sets the limit\\)";
}

}  // namespace

TEST_CASE("a rank that does not fill mailboxes", "[.child][no-message]") {
  std::vector<Knobs> all;
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (!sched::works_in_place(knobs)) all.push_back(knobs);
    }
  }
  REQUIRE(all.size() > 3);
  const auto outcomes_of_all = side_by_side(all, [](const Knobs& knobs) {
    return exchange(3, "all_reduce", knobs, [](const Value& x) { return all_reduce(x, sum); });
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].algorithm << ", " << all[i].protocol);
    const std::vector<RankOutcome>& outcomes = outcomes_of_all[i];
    for (const std::size_t rank : {0U, 2U}) {
      CHECK(outcomes[rank].kind == "CommError");
      CHECK_THAT(outcomes[rank].what,
                 Matches(waited(std::to_string(rank), "[0-2]", "for a chunk from it")));
    }
    CHECK(std::any_of(outcomes.begin(), outcomes.end(), [](const RankOutcome& outcome) {
      return outcome.what.find(" for rank 1 in kernel") != std::string::npos;
    }));
  }
}

TEST_CASE("a rank that does not fill the lines that teams of threads wait for",
          "[.child][no-line]") {
  const auto outcomes = exchange(2, "all_reduce", knobs_of("ring", "ll128"),
                                 [](const Value& x) { return all_reduce(x, sum); });
  CHECK(outcomes[0].kind == "CommError");
  CHECK_THAT(outcomes[0].what, Matches(waited("0", "1", "for a chunk from it")));
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
    CHECK_THAT(outcomes[0].what, Matches(waited("0", "1", "for room in its mailbox")));
    // It finds what fitted, and misses the rest.
    CHECK(outcomes[1].kind == "CommError");
    CHECK_THAT(outcomes[1].what, Matches(waited("1", "0", "for a chunk from it")));
  }
}
