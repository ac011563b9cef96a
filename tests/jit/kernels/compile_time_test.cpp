// What a cold kernel costs beyond its compiler: key, locks, waiting and storing.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "coconet/coconet.h"
#include "jit/kernels/obtain_binaries.h"
#include "jit/platform/bare_nvrtc.h"
#include "jit/platform/cuda/nvrtc.h"
#include "sample.h"
#include "sched/plan.h"

using namespace coconet;

namespace {

/// Milliseconds.
double time_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace

TEST_CASE("compiling through the cache takes 1.05 times of what NVRTC takes for the same text") {
  const test::BareNvrtc bare;
  if (!bare.is_here() || !test::runs_all()) return;
  const Program program = programs::adam(Mesh({{"world", 8}}));
  const auto scheduled = Schedule::load("adam-fused.json").apply(program);
  jit::KernelText text = jit::generate(sched::lower(*scheduled.back().graph())).front();
  const std::string source = text.source;
  const jit::NvrtcCompiler compiler("sm_90");
  const std::vector<std::string> options = {"--gpu-architecture=sm_90",
                                            "--std=c++20",
                                            "--device-as-default-execution-space",
                                            "--fmad=false",
                                            "--ptxas-options=-v",
                                            "--define-macro=RANKS_PER_LAUNCH=1"};
  // Of another text every time, in this run and from run to run, so that it is in no cache.
  const auto born = std::chrono::system_clock::now().time_since_epoch().count();
  std::vector<double> theirs;
  std::vector<double> ours;
  std::vector<double> ratios;
  for (int round = -1; round < 11; ++round) {
    text.source = source + "// " + std::to_string(born) + " " + std::to_string(round) + "\n";
    std::string cubin;
    jit::ObtainedBinary obtained;
    const auto compile_bare = [&] {
      cubin = bare.cubin(jit::complete_source(text, "cuda"), options);
    };
    const auto compile_cached = [&] {
      const jit::BinaryRequest request(compiler, text);
      const auto* const wanted = &request;
      obtained = jit::obtain_binaries({&wanted, 1}).front();
    };
    double bare_ms = 0;
    double cached_ms = 0;
    if (round % 2 == 0) {
      bare_ms = time_of(compile_bare);
      cached_ms = time_of(compile_cached);
    } else {
      cached_ms = time_of(compile_cached);
      bare_ms = time_of(compile_bare);
    }
    REQUIRE(obtained.was_compiled());
    REQUIRE((obtained.binary.payload == cubin));
    if (round < 0) continue;  // NVRTC sets itself up
    theirs.push_back(bare_ms);
    ours.push_back(cached_ms);
    ratios.push_back(cached_ms / bare_ms);
  }
  const double best = std::ranges::min(ours) / std::ranges::min(theirs);
  std::printf(
      "NVRTC takes %.1f ms, through the cache %.1f ms: medians of %zu; %.3f times as long in the "
      "median "
      "round, %.3f in the best of each\n",
      median(theirs), median(ours), ours.size(), median(ratios), best);
  // Noise comes on top of both: where one of the two is good, the rest is the machine's.
  CHECK(std::min(best, median(ratios)) <= 1.05);
}
