// The pool of a thread's helpers: each piece of work is done once, at once with the others, however
// long the pool had nothing to do, and by whoever has a pool of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "jit/comm/worlds/core_pool.h"
#include "on_threads.h"

using coconet::jit::CorePool;
using namespace coconet::test;

namespace {

/// Runs work for `cores` that waits until all have come, and requires that each was called once.
void require_meeting(int cores) {
  std::atomic<int> here = 0;
  std::vector<int> calls(static_cast<std::size_t>(cores));
  CorePool::of_this_thread().run(cores, [&](int core) {
    ++calls[static_cast<std::size_t>(core)];
    ++here;
    while (here != cores) std::this_thread::yield();
  });
  CHECK(calls == std::vector<int>(static_cast<std::size_t>(cores), 1));
}

}  // namespace

TEST_CASE("pieces of work run at once, the first in the calling thread") {
  for (const int cores : {1, 2, 5, 3, 2}) require_meeting(cores);
  std::thread::id first;
  CorePool::of_this_thread().run(2, [&](int core) {
    if (core == 0) first = std::this_thread::get_id();
  });
  CHECK(first == std::this_thread::get_id());
  for (int run = 0; run < 2000; ++run) require_meeting(3);
}

TEST_CASE("a pool that had nothing to do for a while wakes up") {
  for (int run = 0; run < 20; ++run) {
    require_meeting(4);
    std::this_thread::sleep_for(std::chrono::milliseconds(run % 3));
  }
}

TEST_CASE("each piece of work is done once, whoever is quicker") {
  for (int run = 0; run < 3000; ++run) {
    if (run % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<std::atomic<int>> times(4);
    CorePool::of_this_thread().run(4, [&](int core) { ++times[static_cast<std::size_t>(core)]; });
    REQUIRE(std::ranges::all_of(times, [](const auto& one) { return one == 1; }));
  }
}

TEST_CASE("every thread has a pool of its own, which ends with it") {
  on_threads(3, [](int) {
    for (int run = 0; run < 50; ++run) require_meeting(2);
  });
}

TEST_CASE("spread work covers everything once, in whole units, on no more cores than it is worth") {
  for (const std::size_t count : {0, 1, 63, 64, 1000, 1001, 4096, 4097}) {
    for (const int cores : {1, 2, 3, 7}) {
      INFO(count << " on " << cores << " cores");
      std::vector<std::atomic<int>> times(count);
      std::atomic<int> parts = 0, crooked = 0;
      coconet::jit::spread(cores, count, 500, 64, [&](std::size_t begin, std::size_t length) {
        ++parts;
        if (begin % 64 != 0) ++crooked;
        for (std::size_t i = begin; i < begin + length; ++i) ++times[i];
      });
      CHECK(std::ranges::all_of(times, [](const auto& one) { return one == 1; }));
      CHECK(crooked == 0);
      CHECK(parts == std::clamp(static_cast<int>(count / 500), 1, cores));
    }
  }
}

TEST_CASE("a child of a fork makes another pool, and ends") {
  require_meeting(3);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> sum = 0;
    CorePool::of_this_thread().run(3, [&](int core) { sum += core; });
    std::exit(sum == 3 ? 7 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  require_meeting(3);
}
