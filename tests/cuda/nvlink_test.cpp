// What the protocol ll128 needs of the connections between GPUs: lines that arrive whole, as over
// NVLink.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "elements.h"
#include "jit/exchange/kernel_subjects.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

/// The sum of all ranks' ones, in a kernel with `protocol`, on `ranks` threads.
void sum_ones(int ranks, const char* protocol) {
  World::local(ranks, [&](World& world) {
    constexpr std::int64_t n = 1000;
    const Schedule schedule =
        Schedule("sum").fuse("summed", "all_reduce", {"sum"}, knobs_of("ring", protocol));
    Executable step = compile(total(world, n), schedule, world);
    step.write("x", std::vector<float>(n, 1.0f));
    step.run();
    if (elements_of(step, "y") != std::vector<float>(n, static_cast<float>(ranks)))
      throw InternalError("rank " + std::to_string(world.rank()) + " got another sum");
  });
}

}  // namespace

TEST_CASE("lines go between GPUs that NVLink connects") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  REQUIRE_NOTHROW(sum_ones(2, "ll128"));
}

TEST_CASE(
    "lines are refused between GPUs that something else connects, and other protocols are not") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const Setting nvlink("STUB_CUDA_NVLINK", "0");
  const std::string said = refusal<BackendError>([] { sum_ones(2, "ll128"); });
  CHECK_THAT(
      said,
      Contains(
          "kernel 'summed' has the protocol ll128, which needs NVLink between GPUs, but rank ") &&
          Contains("'s (Stub ") &&
          Contains(") are connected otherwise; use the protocol ll or simple"));
  REQUIRE_NOTHROW(sum_ones(2, "ll"));
  REQUIRE_NOTHROW(sum_ones(2, "simple"));
}

TEST_CASE("ranks that share a GPU need no NVLink") {
  const Setting nvlink("STUB_CUDA_NVLINK", "0");
  REQUIRE_NOTHROW(sum_ones(3, "ll128"));
}
