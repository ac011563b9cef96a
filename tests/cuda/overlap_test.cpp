// Steps of an overlap on GPUs: streams of their own, ordered by events where they begin and end, in
// graphs too.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t rows = 300;  // two tiles of a product
constexpr std::int64_t columns = 5;

/// y = 2 a b + 1 on every rank, by a matmul and a kernel that runs beside it with so many blocks.
Executable doubled_product(const World& world, int channels) {
  Program p("doubled", Mesh::over(world));
  const Value a = p.input("a", f32, {rows, 2}, local);
  const Value product = matmul(a, p.input("b", f32, {2, columns}, replicated)).named("product");
  p.output("y", broadcast((product * 2 + p.scalar("more")).named("twice"), 0).named("y"));
  Knobs knobs;
  knobs.channels = channels;
  const Schedule schedule = Schedule()
                                .fuse("spreads", "broadcast", {"twice", "y"}, knobs)
                                .overlap({"product", "spreads"});
  Executable step = compile(p, schedule, world);
  step.write("a", std::vector<float>(rows * 2, 3.0f));
  step.write("b", std::vector<float>(2 * columns, 0.5f));
  return step;
}

/// "5" of "... stream=5"; of each of the calls.
std::set<std::string> streams_of(const std::vector<std::string>& calls) {
  std::set<std::string> streams;
  for (const std::string& call : calls) {
    const std::size_t at = call.find("stream=");
    if (at != std::string::npos) streams.insert(call.substr(at + 7));
  }
  return streams;
}

std::vector<std::string> launches_of(const std::string& entry) {
  std::vector<std::string> found;
  for (const std::string& call : stub_cuda::calls("cuLaunchKernelEx")) {
    if (call.find("entry=" + entry + " ") != std::string::npos) found.push_back(call);
  }
  return found;
}

void check_result(Executable& step, float more) {
  CHECK(elements_of(step, "y") == std::vector<float>(rows * columns, 6 + more));
}

}  // namespace

TEST_CASE(
    "a product is made tile by tile on a stream of its own, beside the kernel that takes it") {
  const World world = World::self();
  Executable step = doubled_product(world, 1);
  stub_cuda::clear();
  step.run({{"more", 1.0}});
  check_result(step, 1);

  const std::vector<std::string> products = stub_cuda::calls("cublasLtMatmul");
  const std::vector<std::string> tellers = launches_of("signal_tiles_kernel");
  const std::vector<std::string> kernels = launches_of("spreads_kernel");
  CHECK(products.size() == 2);
  CHECK(tellers.size() == 2);
  REQUIRE(kernels.size() == 1);
  CHECK(streams_of(products).size() == 1);
  // What tells of a tile is on a branch, so that the next one does not wait for it.
  CHECK(streams_of(tellers).size() == 1);
  CHECK(streams_of(products) != streams_of(tellers));
  CHECK(streams_of(products) != streams_of(kernels));
  CHECK(streams_of(tellers) != streams_of(kernels));
  // There is room for all of its blocks, and launches that start as a whole may do so one by one.
  CHECK_THAT(kernels.front(), Contains("cooperative=0"));
}

TEST_CASE("makers of tiles come before their takers, in the GPU's queues and in its room") {
  stub_cuda::clear();
  const World world = World::self();
  Executable step = doubled_product(world, 1);
  std::map<std::string, int> priorities;
  for (const std::string& call : stub_cuda::calls("cuStreamCreateWithPriority")) {
    const std::size_t at = call.find("priority=");
    priorities[*streams_of({call.substr(0, call.find(" device="))}).begin()] =
        std::stoi(call.substr(at + 9));
  }
  step.run({{"more", 1.0}});
  const auto priority_of = [&](const std::vector<std::string>& calls) {
    return priorities.at(*streams_of(calls).begin());
  };
  const int of_product = priority_of(stub_cuda::calls("cublasLtMatmul"));
  CHECK(priority_of(launches_of("signal_tiles_kernel")) < of_product);
  CHECK(of_product < priority_of(launches_of("spreads_kernel")));
}

TEST_CASE("products of ranks on one GPU are made tile by tile, not rank by rank") {
  stub_cuda::clear();
  World::local(2, [](World& world) {
    Executable step = doubled_product(world, 1);
    step.run({{"more", 1.0}});
    check_result(step, 1);
  });
  std::string order;
  for (const std::string& call : stub_cuda::calls()) {
    if (call.starts_with("cublasLtMatmul")) order += "p";
    if (call.find("entry=signal_tiles_kernel ") != std::string::npos) order += "s";
  }
  CHECK(order == "ppssppss");
}

TEST_CASE("where kernels fill the GPU, the steps go into one stream") {
  const World world = World::self();
  Executable step =
      doubled_product(world, 3);  // of 4 multiprocessors, of which the product has two
  stub_cuda::clear();
  step.run({{"more", 2.0}});
  check_result(step, 2);
  std::set<std::string> streams = streams_of(stub_cuda::calls("cublasLtMatmul"));
  streams.merge(streams_of(launches_of("spreads_kernel")));
  CHECK(streams.size() == 1);
}

TEST_CASE("the graph of a step has its overlaps, and their kernel's number of the run changes") {
  const World world = World::self();
  Executable step = doubled_product(world, 2);
  for (int run = 1; run <= 9; ++run) step.run({{"more", static_cast<double>(run)}});
  step.synchronize();
  stub_cuda::clear();
  for (int run = 10; run <= 14; ++run) {
    step.run({{"more", static_cast<double>(run)}});
    check_result(step, static_cast<float>(run));
  }
  CHECK(stub_cuda::calls("cuStreamBeginCapture").size() == 1);
  CHECK(stub_cuda::calls("cuGraphLaunch").size() == 5);
  CHECK(stub_cuda::calls("cuGraphExecKernelNodeSetParams").size() == 4);
  CHECK(stub_cuda::calls("cublasLtMatmul").size() == 2);  // as it was recorded
  CHECK(streams_of(stub_cuda::calls("cublasLtMatmul")) !=
        streams_of(launches_of("spreads_kernel")));
}

TEST_CASE("a report has the times of steps that run at once") {
  const World world = World::self();
  Executable step = doubled_product(world, 1);
  for (int run = 0; run < 4; ++run) step.run({{"more", 1.0}});
  const Report report = step.report();
  REQUIRE(report.kernels.size() == 2);
  CHECK(report.kernels[0].ms > 0);
  CHECK(report.kernels[1].ms > 0);
}

TEST_CASE("a kernel runs while its product is still made, and says whom it waited for too long") {
  // Every operation begins late: the kernel is there before the second tile is, which takes longer
  // than COCONET_TIMEOUT_S.
  const World world = World::self();
  Executable step = doubled_product(world, 1);
  step.run({{"more", 1.0}});
  step.synchronize();
  const Setting delay("STUB_CUDA_DELAY_US", "700000");
  const std::string told = refusal([&] {
    step.run({{"more", 1.0}});
    step.synchronize();
  });
  CHECK_THAT(told,
             Contains("rank 0 waited in kernel 'spreads' (step 2 of 2), block 0, for tiles of its "
                      "own step 'product' (expected flag "));
}

TEST_CASE("what fails between streams is told, leaves nothing, and the next executable works") {
  const World world = World::self();
  { Executable warm = doubled_product(world, 1); }
  const std::string before = stub_cuda::live();
  for (const char* function : {"cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernelEx"}) {
    for (const int skip : {0, 1, 2, 3}) {
      INFO(function << " after " << skip);
      {
        Executable step = doubled_product(world, 1);
        stub_cuda::fail(function, skip, 1);
        const std::string told = refusal([&] {
          step.run({{"more", 1.0}});
          step.synchronize();
        });
        stub_cuda::heal();
        CHECK((told == "(accepted)" || told.find("the driver reports") != std::string::npos));
      }
      CHECK(stub_cuda::live() == before);
      Executable step = doubled_product(world, 1);
      step.run({{"more", 3.0}});
      check_result(step, 3);
    }
  }
}
