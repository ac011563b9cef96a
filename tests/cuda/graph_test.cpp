// Steps of several launches are recorded once and replayed as a graph.
#include <catch2/catch.hpp>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;

namespace {

std::size_t count(const char* function) {
  return stub_cuda::calls(function).size();
}

/// What `three_kernels` makes of x = 1, 2, ... after `runs` steps with the factors 1, 2, ...
std::vector<float> expected_after(int runs, std::size_t n) {
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i + 1);
  for (int run = 1; run <= runs; ++run) {
    double total = 0;
    for (double& value : x) total += value += run;
    for (double& value : x) value -= total;
  }
  return {x.begin(), x.end()};
}

}  // namespace

TEST_CASE("a step of several kernels is recorded once; later steps change its numbers") {
  const World world = World::self();
  constexpr std::size_t n = 8;
  Executable step = three_kernels(world, n);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
  step.write("x", x);
  stub_cuda::clear();
  // The first step is launched as it is, the next eight are timed launch by launch, and so is the
  // 64th.
  constexpr int runs = 5;
  for (int run = 1; run <= runs; ++run) step.run({{"factor", static_cast<double>(run)}});
  step.read("x", x);
  const std::vector<float> expected = expected_after(runs, n);
  for (std::size_t i = 0; i < n; ++i) CHECK(x[i] == Approx(expected[i]).epsilon(1e-5));

  CHECK(count("cuGraphLaunch") == 0);
  stub_cuda::clear();
  for (int run = 0; run < 40; ++run) step.run({{"factor", static_cast<double>(run)}});
  step.synchronize();
  CHECK(count("cuGraphLaunch") == 40 - 4);  // steps 6 to 9 are timed
  CHECK(count("cuStreamBeginCapture") == 1);
  CHECK(count("cuGraphInstantiate") == 1);
  // Only what changes from step to step is replaced: the kernel that reads `factor`.
  const std::size_t changes = count("cuGraphExecKernelNodeSetParams");
  CHECK(changes >= 35);  // the first replay has what was recorded
  CHECK(changes < 3 * 35);
}

TEST_CASE("binding other memory records the step anew") {
  const World world = World::self();
  Executable step = three_kernels(world, 64);
  Executable other = three_kernels(world, 64);
  step.write("x", std::vector<float>(64, 1.0f));
  other.write("x", std::vector<float>(64, 2.0f));
  for (int run = 0; run < 12; ++run) step.run({{"factor", 0.0}});
  step.synchronize();
  other.synchronize();  // whose write has a stream of its own
  stub_cuda::clear();
  step.bind("x", other.data<float>("x"));
  step.write("x", std::vector<float>(64, 2.0f));
  step.run({{"factor", 1.0}});
  CHECK(count("cuStreamBeginCapture") == 1);
  step.synchronize();
  CHECK(elements_of(other, "x")[0] == 3.0f - 64 * 3.0f);
}

TEST_CASE("a step that cannot be recorded is launched as it is, and nobody tries again") {
  const World world = World::self();
  Executable step = three_kernels(world, 64);
  step.write("x", std::vector<float>(64, 0.0f));
  for (int run = 0; run < 9; ++run) step.run({{"factor", 0.0}});
  step.synchronize();
  stub_cuda::clear();
  stub_cuda::fail("cuGraphInstantiateWithFlags", 0, 801);
  stub_cuda::fail("cuGraphInstantiate", 0, 801);
  for (int run = 0; run < 3; ++run) step.run({{"factor", 1.0}});
  const std::vector<float> x = elements_of(step, "x");
  stub_cuda::heal();
  CHECK(count("cuGraphLaunch") == 0);
  CHECK(count("cuStreamBeginCapture") == 1);
  double value = 0;
  for (int run = 0; run < 3; ++run) value = value + 1 - 64 * (value + 1);
  CHECK(x[0] == Approx(value));
}

TEST_CASE("a graph replays the steps of all ranks on a GPU, collectives included") {
  stub_cuda::clear();
  World::local(3, [](World& world) {
    Executable step = compile_shipped(world, "adam", "sliced", 100);
    Executable again = compile_shipped(world, "adam", "fused", 100);
    std::vector<float> g(100, static_cast<float>(world.rank() + 1));
    for (Executable* one : {&step, &again}) {
      one->write("g", g);
      one->write("w", std::vector<float>(100, 0.5f));
      for (const char* name : {"m", "v"}) one->data<float>(name);
      for (int t = 1; t <= 14; ++t) one->run({{"lr", 0.1}, {"t", static_cast<double>(t)}});
    }
    if (elements_of(step, "w") != elements_of(again, "w"))
      throw InternalError("the replayed steps gave other weights");
  });
  CHECK(count("cuGraphLaunch") == 14 - 9);
}
