// Test cases that lost_rank_test.cpp runs in processes of their own, whose kernels keep rank 1 from its mailboxes for
// longer than the others wait for it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "jit/rank_outcomes.h"
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
    (void)step.buffer<float>("x");
    step.run();
  });
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
  for (const sched::KnobChoice& algorithm : sched::algorithm_choices()) {
    for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
      const Knobs knobs = knobs_of(algorithm.name, protocol.name);
      if (sched::works_in_place(knobs)) continue;
      INFO(algorithm.name << ", " << protocol.name);
      const auto outcomes =
          exchange(3, "all_reduce", knobs, [](const Value& x) { return all_reduce(x, sum); });
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
}

TEST_CASE("a rank that does not fill the lines that teams of threads wait for",
          "[.child][no-line]") {
  const auto outcomes = exchange(2, "all_reduce", knobs_of("ring", "ll128"),
                                 [](const Value& x) { return all_reduce(x, sum); });
  CHECK(outcomes[0].kind == "CommError");
  CHECK_THAT(outcomes[0].what, Matches(waited("0", "1", "for a chunk from it")));
}

TEST_CASE("a rank that does not empty mailboxes", "[.child][no-room]") {
  for (const sched::KnobChoice& protocol : sched::protocol_choices()) {
    INFO(protocol.name);
    const auto outcomes = exchange(2, "broadcast", knobs_of("ring", protocol.name),
                                   [](const Value& x) { return broadcast(x, 0); });
    CHECK(outcomes[0].kind == "CommError");
    CHECK_THAT(outcomes[0].what, Matches(waited("0", "1", "for room in its mailbox")));
    // It finds what fitted, and misses the rest.
    CHECK(outcomes[1].kind == "CommError");
    CHECK_THAT(outcomes[1].what, Matches(waited("1", "0", "for a chunk from it")));
  }
}
