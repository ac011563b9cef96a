// A rank that others wait for inside a kernel, and that never comes. COCONET_TIMEOUT_S is 1 here.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "jit/rank_outcomes.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("who waited for whom in a kernel is told after the time is over") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const auto late = outcomes_of(2, [](World& world) {
    Executable step = compile(programs::sgd(Mesh::over(world)), Schedule::load("sgd-fused.json"),
                              world, {{"n", 1000}});
    for (const char* name : {"g", "w"}) step.buffer<float>(name);
    step.run({{"lr", 0.1}});
    step.synchronize();
    world.barrier();
    // One of the two launches fails; the other rank's kernel waits for it.
    if (world.rank() == 0) stub_cuda::fail("cuLaunchKernelEx", 0, 719);
    world.barrier();
    step.run({{"lr", 0.1}});
    std::vector<float> w(1000);
    step.read("w", w);
  });
  int failed = 0;
  int waited = 0;
  for (const RankOutcome& outcome : late) {
    INFO(outcome.what);
    if (outcome.what.starts_with("launching kernel 'sgd_fused_kernel'")) ++failed;
    if (outcome.kind == "CommError" && outcome.what.starts_with("rank ")) {
      ++waited;
      CHECK_THAT(
          outcome.what,
          Contains(" waited 1 s for rank ") &&
              Contains(" in kernel 'sgd_fused', at its first barrier, block 0: expected flag "));
    }
  }
  CHECK(failed == 1);
  CHECK(waited == 1);
}
