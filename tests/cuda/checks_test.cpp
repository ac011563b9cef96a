// COCONET_CHECK=1 and Executable::reset where tensors are in a GPU's memory.
#include <catch2/catch.hpp>
#include <vector>

#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/run/state_checks.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("ranks that share a GPU compare what they must have alike, and go on") {
  std::vector<RankOutcome> said(2);
  const auto body = [&](World& world) {
    Executable step = compile_train(world, 300);
    std::vector<float> w(300, 1);
    step.write("g", std::vector<float>(300, 1));
    if (world.rank() == 1) w[200] = 3;
    step.write("w", w);
    said[world.rank()] = outcome_of([&] { step.run({{"lr", 1}}); });
    w[200] = 1;
    step.write("w", w);
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>(300, 0));
  };
  REQUIRE_NOTHROW(World::local(2, body, {.check = true}));
  check_outcomes(said, "CommError",
                 "state 'w' must be the same on ranks that hold the same part of it, but rank 1 "
                 "has other elements than rank 0: element 200 of the part is 1 on rank 0 and 3 on "
                 "rank 1 (COCONET_CHECK)");
}

TEST_CASE("an executable on a GPU begins anew") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable step = compile_train(world, 300);
    step.write("g", std::vector<float>(300, 1));
    for (int time = 0; time < 3; ++time) {
      step.run({{"lr", 1}});
      step.run({{"lr", 1}});
      REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>(300, -2));
      step.reset();
      REQUIRE_ON_RANK(step.local_stats().runs == 0);
    }
  }));
}
