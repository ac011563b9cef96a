// What an application's threads may do at the same time, and what they are told when they do more.
// ThreadSanitizer runs this, too (race/threads).
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/run/long_run_checks.h"
#include "on_threads.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

/// Compiles, runs a few steps, and looks at the state: with all that a thread may do meanwhile.
void use_a_world(const World& world, const LongRun& run, int steps) {
  constexpr std::int64_t n = 64;
  Executable step = compile_sum(world, run, n);
  step.write("g", std::vector<float>(n, 1));
  for (int done = 0; done < steps; ++done) step.run();
  (void)step.local_stats();
  REQUIRE_ON_RANK(elements_of(step, "w") ==
                  std::vector<float>(n, static_cast<float>(steps * world.size())));
}

}  // namespace

TEST_CASE("every thread has an executable of its own, of one world each or all of one") {
  REQUIRE_NOTHROW(on_threads(4, [](int thread) {
    use_a_world(World::self(), long_runs[thread % std::size(long_runs)], 20);
  }));
  const World common = World::self();
  std::vector<Executable> steps;
  for (int thread = 0; thread < 3; ++thread) steps.push_back(compile_sum(common, long_runs[0], 64));
  REQUIRE_NOTHROW(on_threads(3, [&](int thread) {
    Executable& step = steps[static_cast<std::size_t>(thread)];
    step.write("g", std::vector<float>(64, static_cast<float>(thread)));
    for (int done = 0; done < 20; ++done) step.run();
    REQUIRE_ON_RANK(elements_of(step, "w") ==
                    std::vector<float>(64, static_cast<float>(20 * thread)));
  }));
}

TEST_CASE("several worlds of a process are made, used and ended at the same time") {
  REQUIRE_NOTHROW(on_threads(3, [](int thread) {
    for (int time = 0; time < 3; ++time) {
      World::local(2, [&](World& world) {
        use_a_world(world, long_runs[(thread + time) % std::size(long_runs)], 5);
      });
    }
  }));
}

TEST_CASE("one executable serves several threads, one after the other") {
  Executable step = compile_sum(World::self(), long_runs[0], 64);
  step.write("g", std::vector<float>(64, 1));
  std::mutex mutex;
  REQUIRE_NOTHROW(on_threads(3, [&](int) {
    for (int done = 0; done < 50; ++done) {
      const std::lock_guard lock(mutex);
      step.run();
    }
  }));
  CHECK(elements_of(step, "w") == std::vector<float>(64, 150));
}

TEST_CASE("threads that run one executable at the same time are told so") {
  // The steps are long, so that some meet; those that did not run are counted.
  constexpr std::int64_t n = 1 << 20;
  Executable step = compile_sum(World::self(), long_runs[3], n);
  step.write("g", std::vector<float>(n, 1));
  std::atomic<int> ran{0}, refused{0};
  std::string said;
  std::mutex mutex;
  REQUIRE_NOTHROW(on_threads(2, [&](int) {
    for (int turn = 0; turn < 200; ++turn) {
      try {
        step.run();
        ++ran;
      } catch (const BackendError& error) {
        const std::lock_guard lock(mutex);
        said = error.what();
        ++refused;
      }
    }
  }));
  CHECK(ran + refused == 400);
  CHECK(refused > 0);
  CHECK_THAT(said, Contains("another thread runs 'add' at this moment"));
  CHECK(elements_of(step, "w") == std::vector<float>(n, static_cast<float>(ran)));
}

TEST_CASE("another thread ends a world whose ranks run") {
  std::vector<World> worlds;
  std::mutex mutex;
  std::jthread ender([&] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::lock_guard lock(mutex);
      if (worlds.empty()) continue;
      worlds.front().abort("enough");
      return;
    }
  });
  const auto ends = outcomes_of(2, [&](World& world) {
    Executable step = compile_sum(world, long_runs[0], 64);
    step.write("g", std::vector<float>(64, 1));
    step.run();
    if (world.rank() == 0) {
      const std::lock_guard lock(mutex);
      worlds.push_back(world);
    }
    for (;;) step.run();
  });
  ender.join();
  worlds.clear();
  check_outcomes(ends, "CommError", Contains("enough"));
}
