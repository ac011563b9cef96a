// Every call to the driver fails once: it is told as an error, nothing leaks, and the next
// executable works.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "refusal.h"
#include "sample.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

constexpr int launch_failed = 719;  // CUDA_ERROR_LAUNCH_FAILED
constexpr int not_supported = 15;   // CUBLAS_STATUS_NOT_SUPPORTED

/// Calls that give something back: that they fail is nobody's error.
const std::set<std::string> forgiven = {
    "cuMemFreeAsync",     "cuStreamDestroy", "cuEventDestroy",  "cuGraphDestroy",
    "cuGraphExecDestroy", "cuMemRelease",    "cuMemUnmap",      "cuMemAddressFree",
    "cuMemFreeHost",      "cuLibraryUnload", "cuCtxPopCurrent", "cuMulticastUnbind"};

void adam_steps(World& world) {
  Executable step = compile_shipped(world, "adam", "sliced", 100);
  step.write("g", std::vector<float>(100, 1.0f));
  step.write("w", std::vector<float>(100, 0.5f));
  for (const char* name : {"m", "v"}) step.data<float>(name);
  for (int t = 1; t <= 11; ++t) step.run({{"lr", 0.1}, {"t", static_cast<double>(t)}});
  if (!(elements_of(step, "w")[99] < 0.0f)) throw InternalError("Adam went nowhere");
}

Executable fused_sgd(const World& world, const Knobs& knobs) {
  const Schedule schedule =
      Schedule("sgd-fused")
          .split("avg")
          .reorder("avg.all_gather", {"w.new"})
          .fuse("sgd_fused", "all_reduce", {"avg.reduce_scatter", "w.all_gather", "w.new"}, knobs);
  return compile(programs::sgd(Mesh::over(world)), schedule, world, {{"n", 100}});
}

void fused_steps(World& world) {
  Executable step = fused_sgd(world, {});
  step.write("g", std::vector<float>(100, 1.0f));
  step.write("w", std::vector<float>(100, 0.5f));
  for (int t = 1; t <= 3; ++t) step.run({{"lr", 0.1}});
  if (elements_of(step, "w")[99] != 0.5f - 0.1f - 0.1f - 0.1f)
    throw InternalError("SGD went elsewhere");
}

/// How often `body` calls each function of the driver.
std::map<std::string, int> calls_of(const std::function<void()>& body) {
  stub_cuda::clear();
  body();
  std::map<std::string, int> counts;
  for (const std::string& call : stub_cuda::calls()) ++counts[call.substr(0, call.find(' '))];
  return counts;
}

/// Lets calls of `body` fail one after the other: the first and the last `most` of each function.
void require_clean_failures(const std::function<void()>& body, int most) {
  body();  // what is made once is there
  auto before = stub_cuda::live();
  int failures = 0;
  for (const auto& [function, count] : calls_of(body)) {
    // A wait that fails while the work goes on: no driver does that. Work that failed is a test of
    // its own.
    if (function == "cuStreamSynchronize") continue;
    for (int skip = 0; skip < count; ++skip) {
      if (skip >= most && skip < count - most) continue;
      INFO(function << ", call " << skip + 1 << " of " << count);
      stub_cuda::fail(function.c_str(), skip, launch_failed);
      const auto start = std::chrono::steady_clock::now();
      const std::string said = refusal<Error>(body);
      CHECK(test::is_within(start, std::chrono::seconds(2)));  // nobody waits
      stub_cuda::heal();
      if (forgiven.contains(function)) {
        CHECK(said == "(accepted)");
        before = stub_cuda::live();  // what could not be given back is still there
        continue;
      }
      ++failures;
      CHECK_THAT(said, Contains("the driver reports CUDA_ERROR_LAUNCH_FAILED"));
      CHECK_THAT(said, !Contains("bug"));
      CHECK(stub_cuda::live() == before);
      CHECK(refusal<Error>(body) == "(accepted)");
    }
  }
  CHECK(failures > 20);
}

}  // namespace

TEST_CASE("every failure of the driver is an error, and the next executable works: one rank") {
  require_clean_failures(
      [] {
        World world = World::self();
        adam_steps(world);
      },
      3);
}

TEST_CASE(
    "every failure of the driver is an error, and the next executable works: ranks on a GPU") {
  require_clean_failures([] { World::local(2, adam_steps); }, 2);
}

TEST_CASE("every failure of the driver is an error: a fused kernel of ranks on a GPU") {
  require_clean_failures([] { World::local(2, fused_steps); }, 2);
}

TEST_CASE("every failure of the driver is an error: making memory behind a multicast pointer") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const Setting multicast("STUB_CUDA_MULTICAST", "1");
  Knobs knobs;
  knobs.algorithm = "multimem";
  // A launch that fails where each rank has its own GPU is waited for: faults_test.cpp.
  require_clean_failures(
      [&] { World::local(2, [&](World& world) { (void)fused_sgd(world, knobs); }); }, 2);
}

TEST_CASE("work that fails on the GPU is told by whoever waits for it") {
  const World world = World::self();
  Executable step = scale(world, 100);
  step.write("x", std::vector<float>(100, 1.0f));
  step.synchronize();
  stub_cuda::fail("operation", 0, launch_failed);
  step.run({{"factor", 1.0}});
  CHECK_THAT(refusal<BackendError>([&] { step.synchronize(); }),
             Contains("work on Stub 0, GPU 0 failed: the driver reports CUDA_ERROR_LAUNCH_FAILED"));
  stub_cuda::heal();
}

TEST_CASE("a matmul says why cuBLASLt does not multiply") {
  Program program("products", Mesh({{"world", 1}}));
  const Value x = program.input("x", f32, {3, 3}, replicated);
  program.output("y", matmul(x, x).named("y"));
  Executable step = compile(program, Schedule(), World::self());
  step.write("x", std::vector<float>(9, 1.0f));
  const Stub cublas(COCONET_STUBS_DIR "/libcublasLt.so.13", "stub_cublas");
  cublas.find<void(int)>("stub_cublas_fail")(not_supported);
  CHECK(refusal<BackendError>([&] { step.run(); }) ==
        "matmul 'y' cannot run on Stub 0, GPU 0: cuBLASLt finds no algorithm: the stub does not "
        "support that");
}
