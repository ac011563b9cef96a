// Long runs of ranks that are threads: nothing grows.
#include <catch2/catch.hpp>

#include <atomic>

#include "jit/run/long_run_checks.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("100,000 steps do not grow") {
  const int steps = static_cast<int>(share_of(100'000));
  for (const LongRun& run : long_runs) {
    for (const int ranks : {1, 2}) {
      INFO(run.name << " on " << ranks << " ranks, " << steps << " steps");
      std::string grown;
      REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
        const std::string mine = growth_of_steps(world, run, steps);
        if (world.rank() == 0) grown = mine;
      }));
      CHECK(grown == "");
    }
  }
}

TEST_CASE("1,000 executables that come and go leave nothing behind") {
  std::string grown;
  const int count = static_cast<int>(share_of(1000));
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    const std::string mine = growth_of_executables(world, count);
    if (world.rank() == 0) grown = mine;
  }));
  CHECK(grown == "");
}

TEST_CASE("100 worlds that come and go leave nothing behind, whether they end well or not") {
  const int worlds = static_cast<int>(share_of(100, 20));
  Holdings before;
  for (int made = 1; made <= worlds; ++made) {
    const bool fails = made % 3 == 0;
    std::atomic<int> shrunk{0};
    const auto body = [&](World& world) {
      Executable step = compile_sum(world, long_runs[made % std::size(long_runs)], 300);
      step.write("g", std::vector<float>(300, 1));
      if (!fails) return step.run();
      try {
        step.run();
        if (world.rank() == 0) world.abort("the end of this one");
        for (;;) step.run();
      } catch (const CommError&) {
        const World next = world.shrink();
        Executable again = compile_sum(next, long_runs[0], 300);
        again.write("g", std::vector<float>(300, 1));
        again.run();
        ++shrunk;
      }
    };
    REQUIRE_NOTHROW(World::local(3, body));
    CHECK(shrunk == (fails ? 3 : 0));
    if (made == worlds / 2) before = holdings();
  }
  CHECK(growth(before, holdings()) == "");
}
