// A rank that others wait for inside a kernel, and that never comes. COCONET_TIMEOUT_S is 1 here.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "jit/comm/rank_outcomes.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

/// Two kernels that wait for the other ranks, one after the other.
Executable two_waiting_kernels(const World& world) {
  Program program("two", Mesh::over(world));
  const Value x = program.input("x", f32, {1000}, local);
  program.output("y", all_reduce(x, sum).named("first"));
  program.output("z", all_reduce(x * x, sum).named("second"));
  Schedule schedule("two");
  schedule.split("first").split("second");
  schedule.fuse("one", "all_reduce", {"first.reduce_scatter", "first.all_gather"});
  schedule.fuse("other", "all_reduce", {"second.reduce_scatter", "second.all_gather"});
  return compile(program, schedule, world);
}

}  // namespace

TEST_CASE("who waited for whom, and in which kernel, is told after the time is over") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const auto late = outcomes_of(2, [](World& world) {
    Executable step = two_waiting_kernels(world);
    step.data<float>("x");
    for (int run = 0; run < 3; ++run) step.run();
    step.synchronize();
    world.barrier();
    // The first launch fails, on one rank or the other; the other's first kernel waits for it.
    if (world.rank() == 0) stub_cuda::fail("cuLaunchKernelEx", 0, 719);
    world.barrier();
    step.run();
    step.synchronize();
  });
  int failed = 0;
  int waited = 0;
  for (const RankOutcome& outcome : late) {
    INFO(outcome.what);
    if (outcome.what.starts_with("launching kernel 'one_kernel'")) ++failed;
    if (outcome.kind != "CommError" || !outcome.what.starts_with("rank ")) continue;
    ++waited;
    CHECK_THAT(outcome.what, Contains(" waited in kernel 'one' (step ") &&
                                 Contains(", block 0, at its first barrier (expected flag ") &&
                                 Contains(" for rank "));
  }
  CHECK(failed == 1);
  CHECK(waited == 1);
}
