// What the CUDA backend asks of the driver: launches, their grids, streams and their order.

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "jit/platform/cuda/device.h"
#include "refusal.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// One fused step of Adam on `ranks` threads.
void run_fused_adam(int ranks, std::int64_t n) {
  World::local(ranks, [n](World& world) {
    Executable step = compile_shipped(world, "adam", "fused", n);
    for (const char* name : {"g", "w", "m", "v"}) step.data<float>(name);
    step.run({{"lr", 0.1}, {"t", 1.0}});
    step.synchronize();
  });
}

}  // namespace

TEST_CASE("a kernel of one rank is an ordinary launch that its work and the GPU's room size") {
  const World world = World::self();
  Executable step = scale(world, 1000);
  step.write("x", std::vector<float>(1000, 2.0f));
  stub_cuda::clear();
  step.run({{"factor", 3.0}});
  const auto launches = stub_cuda::calls("cuLaunchKernelEx");
  REQUIRE(launches.size() == 1);
  // 1000 elements, 4 for a thread and 256 threads a block.
  CHECK_THAT(launches[0],
             Contains("grid=1x1 ") && Contains("threads=256") && Contains("cooperative=0"));
  CHECK(elements_of(step, "x") == std::vector<float>(1000, 6.0f));

  // The stub's 4 multiprocessors run 2048 / 256 blocks each.
  Executable large = scale(world, 1 << 20);
  large.write("x", std::vector<float>(1 << 20, 2.0f));
  stub_cuda::clear();
  large.run({{"factor", 3.0}});
  CHECK_THAT(stub_cuda::calls("cuLaunchKernelEx").at(0), Contains("grid=32x1 "));
}

TEST_CASE("a reduction to one value takes the whole GPU, and every grid gives the same bits") {
  constexpr std::int64_t n = 100003;
  std::vector<double> x(n);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 / static_cast<double>(i + 1);
  const auto summed = [&](const char* blocks_of_processor, const std::string& grid) {
    const Setting occupancy("STUB_CUDA_OCCUPANCY", blocks_of_processor);
    const World world = World::self();
    Program program("sums", Mesh::over(world));
    program.output("y", sum(program.input("x", f64, {n}, replicated)).named("y"));
    Executable step = compile(program, Schedule(), world);
    step.write("x", x);
    stub_cuda::clear();
    std::vector<double> totals;
    for (int run = 0; run < 3; ++run) {  // each of which counts its blocks from zero
      step.run();
      totals.push_back(elements_of<double>(step, "y")[0]);
    }
    const std::string launch = stub_cuda::calls("cuLaunchKernelEx").at(0);
    CHECK_THAT(launch, Contains(grid) && Contains("cooperative=0"));
    CHECK(totals == std::vector<double>(3, totals[0]));
    return totals[0];
  };
  const double whole = summed("8", "grid=13x1 ");  // blocks of 8192 elements
  CHECK(std::abs(whole - 12.090176) < 1e-6);
  CHECK(summed("2", "grid=8x1 ") == whole);
  CHECK(summed("1", "grid=4x1 ") == whole);
}

TEST_CASE("reductions to many results give the same bits on every grid") {
  constexpr std::int64_t rows = 1201, columns = 37;
  std::vector<double> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 / static_cast<double>(i + 1);
  const auto summed = [&](const char* blocks_of_processor) {
    const Setting occupancy("STUB_CUDA_OCCUPANCY", blocks_of_processor);
    const World world = World::self();
    Program program("sums", Mesh::over(world));
    const Value in = program.input("x", f64, {rows, columns}, replicated);
    program.output("of_columns", sum(in, {0}).named("of_columns"));
    program.output("of_rows", sum(in, {1}).named("of_rows"));
    Executable step = compile(program, Schedule(), world);
    step.write("x", x);
    step.run();
    return std::pair(elements_of<double>(step, "of_columns"), elements_of<double>(step, "of_rows"));
  };
  const auto whole = summed("8");
  double first = 0;
  for (std::size_t row = 0; row < rows; ++row) first += x[row * columns];
  CHECK(std::abs(whole.first[0] - first) < 1e-12);
  CHECK(summed("2") == whole);
  CHECK(summed("1") == whole);
}

TEST_CASE("no call of a step waits for the GPU") {
  const World world = World::self();
  Executable step = scale(world, 1000);
  step.data<float>("x");
  step.run({{"factor", 1.0}});
  step.synchronize();
  stub_cuda::hold(true);
  stub_cuda::clear();
  for (int i = 0; i < 40; ++i) step.run({{"factor", 1.0}});  // would not return if one waited
  CHECK(stub_cuda::calls("cuLaunchKernelEx").size() == 40);
  CHECK(stub_cuda::calls("cuStreamSynchronize").empty());
  stub_cuda::hold(false);
  step.synchronize();
}

TEST_CASE("all ranks on one GPU run as one cooperative launch") {
  stub_cuda::clear();
  run_fused_adam(4, 10000);
  const auto launches = stub_cuda::calls("cuLaunchKernelEx");
  REQUIRE(launches.size() == 1);
  // 2500 parameters of a rank: 3 blocks of 256 threads with 4 each.
  CHECK_THAT(launches[0], Contains("grid=3x4 ") && Contains("cooperative=1"));
}

TEST_CASE("a collective along an axis of one rank runs for every rank on the GPU") {
  World::local(3, [](World& world) {
    Program program("alone", Mesh({{"pp", 3}, {"tp", 1}}));
    const Value x = program.input("x", f32, {100}, local);
    program.output("y", all_gather(reduce_scatter(x, sum, 0, "tp"), "tp"));
    Executable step = compile(program, Schedule(), world);
    const std::vector<float> own(100, static_cast<float>(world.rank() + 1));
    step.write("x", own);
    step.run();
    if (elements_of(step, "y") != own)
      throw InternalError("rank " + std::to_string(world.rank()) + " was left out");
  });
}

TEST_CASE("knobs set blocks and threads, and a grid that cannot be resident is refused") {
  const auto launched = [](int channels, int threads) {
    stub_cuda::clear();
    World::local(2, [&](World& world) {
      Schedule schedule("knobs");
      Knobs knobs;
      knobs.channels = channels;
      knobs.threads = threads;
      schedule.split("sum").fuse("k", "all_reduce", {"sum.reduce_scatter", "sum.all_gather"},
                                 knobs);
      Executable step = compile(total(world, 4096), schedule, world);
      step.data<float>("x");
      step.run();
      step.synchronize();
    });
    return stub_cuda::calls("cuLaunchKernelEx").at(0);
  };
  CHECK_THAT(launched(3, 128), Contains("grid=3x2 ") && Contains("threads=128"));
  // 4 multiprocessors with 2048 threads: 8 blocks of 1024.
  CHECK_THAT(launched(4, 1024), Contains("grid=4x2 "));
  const std::string refused = refusal<BackendError>([&] { (void)launched(5, 1024); });
  CHECK_THAT(refused, StartsWith("kernel 'k' cannot run: its blocks wait for each other, and 10 "
                                 "blocks of 1024 threads (5 for each of 2 ranks on a GPU) are more "
                                 "than the 8 that Stub 0, GPU 0 runs at once"));
}

TEST_CASE("ranks with a GPU each launch for themselves") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  stub_cuda::clear();
  run_fused_adam(2, 1000);
  const auto launches = stub_cuda::calls("cuLaunchKernelEx");
  REQUIRE(launches.size() == 2);
  for (const std::string& launch : launches)
    CHECK_THAT(launch, Contains("grid=1x1 ") && Contains("cooperative=1"));
}

TEST_CASE("the application's stream takes steps, reads and writes") {
  const jit::OnDevice current(jit::Device::at(0));
  stub_cuda::OwnStream stream;
  {
    const World world = World::self();
    Executable step = scale(world, 100);
    step.use_stream(stream.get());
    stub_cuda::clear();
    step.write("x", std::vector<float>(100, 2.0f));
    step.run({{"factor", 2.0}});
    CHECK(elements_of(step, "x")[99] == 4.0f);
    const std::string launch = stub_cuda::calls("cuLaunchKernelEx").at(0);
    const std::string on = launch.substr(launch.find("stream="));
    for (const std::string& copy : stub_cuda::calls("cuMemcpyAsync"))
      CHECK_THAT(copy, Contains(on));
    CHECK(stub_cuda::calls("cuMemcpyAsync").size() == 2);
  }
  CHECK(stream.destroy() == 0);  // the executable left it to the application
}

TEST_CASE("a step is refused inside the application's own capture when its ranks wait in kernels") {
  const World world = World::self();
  const jit::OnDevice current(jit::Device::at(0));
  stub_cuda::OwnStream stream;
  {
    Executable step = scale(world, 100);
    step.data<float>("x");
    step.use_stream(stream.get());
    REQUIRE(stream.begin_capture() == 0);
    stub_cuda::clear();
    step.run({{"factor", 2.0}});  // one rank waits for nobody: it becomes part of the graph
    REQUIRE(stream.end_capture() == 0);
    CHECK(stub_cuda::calls("cuLaunchKernelEx").size() == 1);
    CHECK(stub_cuda::calls("cuEventRecord").empty());
  }
  CHECK(stream.destroy() == 0);
  const auto ranks = [&](World& own) {
    Executable step = compile_shipped(own, "sgd", "fused", 100);
    for (const char* name : {"g", "w"}) step.data<float>(name);
    const jit::OnDevice here(jit::Device::at(0));
    const stub_cuda::OwnStream captured;
    if (captured.begin_capture() != 0) throw InternalError("no capture");
    step.use_stream(captured.get());
    const std::string said = refusal([&] { step.run({{"lr", 0.1}}); });
    (void)captured.end_capture();
    step.use_stream(nullptr);
    throw BackendError(said);
  };
  CHECK_THAT(refusal<BackendError>([&] { World::local(2, ranks); }),
             StartsWith("the application's stream is being captured, but a step whose ranks "
                        "or kernels wait for each other cannot be replayed as it is"));
  CHECK_THAT(refusal<BackendError>([&] { World::local(2, ranks, {.check = true}); }),
             StartsWith("the application's stream is being captured, but with COCONET_CHECK=1 "
                        "tensors are read before every step"));
}

TEST_CASE("a misaligned tensor is worked on element by element, with the same result") {
  const World world = World::self();
  Executable step = scale(world, 1001);
  Executable memory = scale(world, 2000);
  float* const base = memory.data<float>("x").data();
  for (const std::size_t shift : {0, 1, 4}) {
    step.bind("x", std::span(base + shift, 1001));
    std::vector<float> x(1001);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    step.write("x", x);
    step.run({{"factor", 2.0}});
    const std::vector<float> got = elements_of(step, "x");
    for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(got[i] == 2 * x[i]);
  }
}
