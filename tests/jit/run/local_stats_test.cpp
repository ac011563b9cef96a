// Times of a rank's own steps.
#include <chrono>
#include <thread>

#include "coconet/coconet.h"
#include "jit/comm/require_on_rank.h"
#include "jit/run/sampler.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("local statistics count and time every kernel, on one rank alone if need be") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable step = compile_shipped(world, "adam", "sliced", 10000);
    const LocalStats none = step.local_stats();
    REQUIRE_ON_RANK(none.runs == 0 && none.count == 0 && none.p50_ms == 0 && none.p99_ms == 0);
    (void)step.data<float>("g");
    for (int t = 1; t <= 50; ++t) step.run({{"lr", 1e-3}, {"t", t}});
    if (world.rank() == 1) {  // the other does not take part
      const LocalStats stats = step.local_stats();
      REQUIRE_ON_RANK(stats.runs == 50 && stats.count == 50);
      REQUIRE_ON_RANK(stats.p50_ms > 0 && stats.p99_ms >= stats.p50_ms);
      REQUIRE_ON_RANK(stats.kernels.size() == 3);
      for (const KernelStats& kernel : stats.kernels) {
        REQUIRE_ON_RANK(kernel.count == 50);
        REQUIRE_ON_RANK(kernel.least_ms > 0 && kernel.p50_ms >= kernel.least_ms);
        REQUIRE_ON_RANK(kernel.p99_ms >= kernel.p50_ms);
        REQUIRE_ON_RANK(kernel.p50_ms <= stats.p99_ms);
      }
      REQUIRE_ON_RANK(stats.kernels.front().kind == "library");
      REQUIRE_ON_RANK(stats.kernels[1].kind == "computation");
    }
    world.barrier();
    const Report report = step.report();
    const LocalStats stats = step.local_stats();
    for (std::size_t i = 0; i < 3; ++i) {
      REQUIRE_ON_RANK(report.kernels[i].name == stats.kernels[i].name);
      REQUIRE_ON_RANK(report.kernels[i].ms == stats.kernels[i].p50_ms);
    }
  }));
}

TEST_CASE("the wait for a rank that comes late is apart, or in the kernel that waits") {
  constexpr auto late = std::chrono::milliseconds(20);
  constexpr double least = 15;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Program alone("alone", Mesh::over(world));  // no kernel waits
    const Value x = alone.state("x", f32, {100}, local);
    update(x, x + 1);
    Executable meets = compile(alone, Schedule(), world);
    Executable fused = compile_shipped(world, "sgd", "fused", 100);
    (void)fused.data<float>("g");
    for (int step = 0; step < 5; ++step) {
      if (world.rank() == 1) std::this_thread::sleep_for(late);
      meets.run();
      if (world.rank() == 1) std::this_thread::sleep_for(late);
      fused.run({{"lr", 1}});
    }
    if (world.rank() == 0) {
      REQUIRE_ON_RANK(meets.local_stats().wait_p50_ms > least);
      REQUIRE_ON_RANK(meets.local_stats().p50_ms < least);
      REQUIRE_ON_RANK(fused.local_stats().wait_p50_ms == 0);
      const KernelStats kernel = fused.local_stats().kernels.front();
      REQUIRE_ON_RANK(kernel.p50_ms > least);
      REQUIRE_ON_RANK(kernel.wait_p50_ms > least && kernel.wait_p50_ms < kernel.p99_ms);
    } else {
      REQUIRE_ON_RANK(fused.local_stats().kernels.front().wait_p50_ms < least);
    }
    world.barrier();
  }));
}

TEST_CASE("every protocol of messages tells how long its kernel waits") {
  for (const char* protocol : {"simple", "ll", "ll128"}) {
    CAPTURE(protocol);
    REQUIRE_NOTHROW(World::local(2, [&](World& world) {
      Program program("sum", Mesh::over(world));
      const Value x = program.input("x", f32, {50000}, local);
      program.output("y", all_reduce(x, Reduction::sum).named("y"));
      Knobs knobs;
      knobs.algorithm = "ring";
      knobs.protocol = protocol;
      Executable step = compile(program, Schedule().fuse("k", "all_reduce", {"y"}, knobs), world);
      (void)step.data<float>("x");
      step.run();
      REQUIRE_ON_RANK(step.local_stats().kernels.front().wait_p99_ms == 0);  // the first run
      for (int run = 0; run < 4; ++run) step.run();
      const KernelStats kernel = step.local_stats().kernels.front();
      REQUIRE_ON_RANK(kernel.wait_p50_ms > 0 && kernel.wait_p50_ms <= kernel.wait_p99_ms);
      REQUIRE_ON_RANK(kernel.wait_p99_ms < kernel.p99_ms);
    }));
  }
}

TEST_CASE("of 1,000 times a quantile is the one that as many are below") {
  jit::Times times;
  CHECK(times.quantile_ms(0.99) == 0);
  for (int ms = 1000; ms > 0; --ms) times.add(std::chrono::milliseconds(ms));
  CHECK(times.count() == 1000);
  CHECK(times.quantile_ms(0.5) == 501);
  CHECK(times.quantile_ms(0.99) == 991);
  CHECK(times.quantile_ms(1) == 1000);
  for (int time = 0; time < 1024; ++time) times.add(std::chrono::milliseconds(7));
  CHECK(times.count() == 2024);
  CHECK(times.quantile_ms(0) == 7);
  CHECK(times.quantile_ms(1) == 7);
}
