// Test cases that bad_input_test.cpp runs in processes of their own, each in its own environment.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// A step with a value called `curved`, on which the environment's options make the compiler
/// stumble.
Program stumbling(int ranks) {
  Program program("stumbling", Mesh({{"world", ranks}}));
  const Value x = program.state("x", f32, {16}, replicated);
  const Value curved = sqrt(x).named("curved");
  update(x, curved * curved);
  return program;
}

Executable compile_and_fill(const World& world, const char* schedule) {
  Executable step = compile_shipped(world, "sgd", schedule, 8);
  for (const char* name : {"g", "w"}) (void)step.data<float>(name);
  return step;
}

/// Runs a step on every rank, and on rank 1 when all others have ended theirs: later than their
/// limit, however busy the machine is.
class LateRank {
 public:
  explicit LateRank(int ranks) : others_(ranks - 1) {}

  void run(const World& world, const std::function<void()>& step) {
    if (world.rank() == 1) {
      for (int left = others_; left > 0; left = others_) others_.wait(left);
      step();
      return;
    }
    const struct Ended {
      std::atomic<int>& others;
      ~Ended() {
        --others;
        others.notify_all();
      }
    } ended{others_};
    step();
  }

 private:
  std::atomic<int> others_;
};

}  // namespace

TEST_CASE("a kernel that does not compile", "[.child][does-not-compile]") {
  const auto outcomes =
      outcomes_of(3, [](World& world) { (void)compile(stumbling(3), Schedule(), world); });
  const std::string& what = outcomes[0].what;
  check_outcomes(outcomes, "CompileError", what);
  CHECK_THAT(what, StartsWith("kernel '") &&
                       Contains("does not compile; the first error is in op curved (sqrt)") &&
                       Contains("\ncommand: ") && Contains("-Dcurved=no_such::name") &&
                       Contains("\nsource: ") && Contains("\nthe compiler says:\n") &&
                       Contains("no_such"));
  const std::size_t at = what.find("\nsource: ") + 9;
  CHECK(std::filesystem::exists(what.substr(at, what.find('\n', at) - at)));
}

TEST_CASE("no compiler", "[.child][no-compiler]") {
  const auto outcomes =
      outcomes_of(3, [](World& world) { (void)compile(stumbling(3), Schedule(), world); });
  check_outcomes(outcomes, "CompileError",
                 Contains("COCONET_CXX is '/no/such/compiler'; there is no such program"));
}

TEST_CASE("a late rank in a fused kernel", "[.child][late-rank]") {
  LateRank late(3);
  const auto outcomes = outcomes_of(3, [&](World& world) {
    Executable step = compile_and_fill(world, "fused");
    step.run({{"lr", 1}});
    const RankOutcome first = outcome_of([&] { late.run(world, [&] { step.run({{"lr", 1}}); }); });
    if (step.torn() != std::vector<std::string>{"w"}) throw InternalError("w is not torn");
    const std::string refused = outcome_of([&] { (void)elements_of(step, "w"); }).what;
    if (refused.find("may be half written by a step that failed (rank ") == std::string::npos)
      throw InternalError("a torn state was read: " + refused);
    step.take_torn();
    (void)elements_of(step, "w");
    if (!step.torn().empty()) throw InternalError("w is torn still");
    const RankOutcome second = outcome_of([&] { step.run({{"lr", 1}}); });
    if (second.kind != "CommError")
      throw InternalError("the broken executable ran again: " + second.what);
    throw CommError(first.what + " | " + second.what);
  });
  for (const std::size_t rank : {0U, 2U}) {
    const std::string me = "rank " + std::to_string(rank);
    CHECK_THAT(
        outcomes[rank].what,
        StartsWith(me + " waited in kernel 'sgd_fused' (step 1 of 1), block 0, at its first "
                        "barrier (expected flag 3, found 2) for rank 1, which did not come ") &&
            (Contains("within 1 s, the limit that COCONET_TIMEOUT_S sets") ||
             Contains("before rank " + std::to_string(2 - rank) + " gave up")) &&
            Contains("cannot run any more, because in an earlier step " + me));
  }
  // The late rank finds the flags of the first barrier and misses the others at the last one.
  CHECK_THAT(
      outcomes[1].what,
      StartsWith("rank 1 waited in kernel 'sgd_fused' (step 1 of 1), block 0, at its last barrier "
                 "(expected flag ") &&
          Contains(" for rank 0, which waited in kernel 'sgd_fused' (step 1 of 1), block 0, at its "
                   "first barrier (expected flag 3, found 2) for rank 1; they are in different "
                   "calls, or one came too late"));
}

TEST_CASE("a late rank in a step that starts with a library collective", "[.child][late-rank]") {
  for (const char* schedule : {"sliced", "unfused"}) {
    const std::string call = schedule == std::string("sliced") ? "reduce_scatter" : "all_reduce";
    LateRank late(2);
    const auto outcomes = outcomes_of(2, [&](World& world) {
      Executable step = compile_and_fill(world, schedule);
      step.run({{"lr", 1}});
      // Where a collective goes through copies, the late rank finds all that it needs of the
      // others, and only the next step fails.
      late.run(world, [&] {
        step.run({{"lr", 1}});
        step.run({{"lr", 1}});
      });
    });
    CHECK(outcomes[0].kind == "CommError");
    CHECK_THAT(outcomes[0].what,
               StartsWith("rank 0 waited in " + call +
                          " for rank 1, which did not come within 1 s, the limit that "
                          "COCONET_TIMEOUT_S sets; this was library collective 'avg") &&
                   Contains("(step 1 of "));
    CHECK(outcomes[1].kind == "CommError");
  }
}

TEST_CASE("a late rank in a step that starts with a computation", "[.child][late-rank]") {
  LateRank late(2);
  const auto outcomes = outcomes_of(2, [&](World& world) {
    Program program("scaled", Mesh::over(world));
    const Value g = program.input("g", f32, {16}, local);
    program.output("total", all_reduce(0.5 * g, sum));
    Executable step = compile(program, Schedule(), world);
    (void)step.data<float>("g");
    step.run();
    late.run(world, [&] { step.run(); });
  });
  CHECK(outcomes[0].kind == "CommError");
  CHECK_THAT(outcomes[0].what,
             StartsWith("rank 0 waited at the beginning of the step for rank 1, which "
                        "did not come within 1 s, the limit that "
                        "COCONET_TIMEOUT_S sets"));
  CHECK(outcomes[1].kind == "CommError");
}
