// Multicast pointers on emulated GPUs: what is made of the driver's objects and given back, where
// there are none, and that kernels that use them conform.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "jit/conformance/conformance.h"
#include "jit/exchange/kernel_subjects.h"
#include "refusal.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

constexpr int not_ready = 802;  // CUDA_ERROR_SYSTEM_NOT_READY: no fabric manager

/// GPUs that have multicast.
class Switch {
 public:
  explicit Switch(const char* gpus) : gpus_("STUB_CUDA_DEVICES", gpus) {}

 private:
  Setting gpus_;
  Setting multicast_{"STUB_CUDA_MULTICAST", "1"};
};

Knobs multimem() {
  Knobs knobs;
  knobs.algorithm = "multimem";
  return knobs;
}

/// The sum over all ranks in one kernel called "totals".
Executable totals(const World& world, std::int64_t n, const Knobs& knobs) {
  return compile(total(world, n), Schedule("s").fuse("totals", "all_reduce", {"sum"}, knobs),
                 world);
}

/// Runs `totals`; `bind` gives it memory.
template <class Bind>
void run_totals(World& world, const Knobs& knobs, const Bind& bind) {
  constexpr std::int64_t n = 1003;
  Executable step = totals(world, n, knobs);
  bind(step);
  step.write("x", std::vector<float>(n, 1.0f + static_cast<float>(world.rank())));
  for (int run = 0; run < 3; ++run) step.run();
  if (elements_of(step, "y") != std::vector<float>(n, 3.0f))
    throw InternalError("another sum than 1 + 2");
}

void run_totals(World& world, const Knobs& knobs) {
  run_totals(world, knobs, [](Executable&) {});
}

/// Where in the log the calls of `function` are.
std::vector<std::ptrdiff_t> places_of(const std::vector<std::string>& calls,
                                      const std::string& function) {
  std::vector<std::ptrdiff_t> places;
  for (auto at = calls.begin(); at != calls.end(); ++at) {
    if (at->starts_with(function + " ")) places.push_back(at - calls.begin());
  }
  return places;
}

}  // namespace

TEST_CASE("a multicast object is made, filled, mapped and given back in the driver's order") {
  const Switch two("2");
  World::local(2,
               [](World& world) { run_totals(world, multimem()); });  // contexts and kernels stay
  const auto before = stub_cuda::live();
  stub_cuda::clear();
  World::local(2, [](World& world) { run_totals(world, multimem()); });
  const std::vector<std::string> calls = stub_cuda::calls();
  for (const std::string& call : calls) CHECK_THAT(call, !Contains("failed="));
  const auto created = places_of(calls, "cuMulticastCreate");
  const auto added = places_of(calls, "cuMulticastAddDevice");
  const auto bound = places_of(calls, "cuMulticastBindMem");
  const auto unbound = places_of(calls, "cuMulticastUnbind");
  REQUIRE(created.size() == 1);
  REQUIRE(added.size() == 2);
  REQUIRE(bound.size() == 2);
  REQUIRE(unbound.size() == 2);
  CHECK(created.back() < added.front());
  CHECK(added.back() < bound.front());
  CHECK(bound.back() < unbound.front());
  CHECK_THAT(calls[static_cast<std::size_t>(created.front())],
             Contains("devices=2 bytes=4194304"));  // the stub's granularity of such objects
  CHECK(stub_cuda::live() == before);
}

TEST_CASE("only kernels that use one, and Buffers, make a multicast object") {
  const Switch two("2");
  stub_cuda::clear();
  World::local(2, [](World& world) { run_totals(world, {}); });
  CHECK(stub_cuda::calls("cuMulticastCreate").empty());
  World::local(2, [](World& world) { (void)world.allocate(f32, 100); });
  CHECK(stub_cuda::calls("cuMulticastCreate").size() == 1);
}

TEST_CASE("kernels of every kind conform with a multicast pointer") {
  const Switch three("3");
  const std::vector<Sizes> sizes = {{{"n", 1}}, {{"n", 67}}, {{"n", 1030}}};
  Knobs knobs = multimem();
  knobs.channels = 2;
  for (const KernelSubject& subject : kernel_subjects) {
    for (const int ranks : {2, 3}) {
      if (!draw()) continue;
      INFO(subject.name);
      require_conforms(subject.program(ranks, f32), subject.schedule(knobs), ranks, sizes, 2);
    }
  }
  for (const DType dtype : {f64, f16, bf16, i64, i32, i8, u8}) {
    if (!draw()) continue;
    const KernelSubject& subject = kernel_subjects[0];
    require_conforms(subject.program(3, dtype), subject.schedule(knobs), 3, sizes, 2);
  }
}

TEST_CASE("Buffers have a multicast pointer where GPUs do") {
  const Switch two("2");
  World::local(2, [](World& world) {
    const Buffer x = world.allocate(f32, 1003);
    const Buffer y = world.allocate(f32, 1003);
    run_totals(world, multimem(), [&](Executable& step) {
      step.bind("x", x);
      step.bind("y", y);
    });
  });
  const std::string said = refusal<BackendError>([] {
    World::local(2, [](World& world) {
      Executable step = totals(world, 100, multimem());
      world.barrier();
      if (world.rank() == 0) stub_cuda::fail("cuMulticastCreate", 0, not_ready);
      world.barrier();
      step.bind("x", world.allocate(f32, 100));
    });
  });
  CHECK_THAT(said, Contains("'x', 100 x f32 on rank ") &&
                       Contains(", is reached through a multicast pointer, and the Buffer has "
                                "none: rank 0: making a multicast object: the driver reports "
                                "CUDA_ERROR_SYSTEM_NOT_READY") &&
                       Contains("; use Executable::data, or the algorithm 'direct'"));
}

TEST_CASE("where there is no multicast pointer, the kernel, the GPU and the reason are named") {
  const std::string kernel =
      "kernel 'totals' has the algorithm 'multimem', and there is no multicast pointer to the "
      "memory of all ranks: ";
  const auto said = [] {
    return refusal<BackendError>(
        [] { World::local(2, [](World& world) { run_totals(world, multimem()); }); });
  };
  {
    const Setting devices("STUB_CUDA_DEVICES", "2");
    CHECK(said() == kernel +
                        "rank 0: Stub 0, GPU 0 has none, which takes NVSwitches and sm_90 or "
                        "later; use the algorithm 'direct'");
  }
  {
    const Switch one("1");
    CHECK(said() == kernel +
                        "ranks 0 and 1 share Stub 0, GPU 0, and each needs a GPU of its own; use "
                        "the algorithm 'direct'");
  }
  const Switch two("2");
  const auto before = stub_cuda::live();
  for (const char* function : {"cuMulticastGetGranularity", "cuMulticastCreate",
                               "cuMulticastAddDevice", "cuMulticastBindMem"}) {
    INFO(function);
    stub_cuda::fail(function, 0, not_ready);
    CHECK_THAT(said(), Contains(kernel + "rank ") &&
                           Contains("the driver reports CUDA_ERROR_SYSTEM_NOT_READY") &&
                           Contains("; use the algorithm 'direct'"));
    CHECK(stub_cuda::live() == before);
  }
  World::local(2, [](World& world) { run_totals(world, multimem()); });
}

TEST_CASE("a kernel of one rank needs no multicast pointer") {
  const World world = World::self();
  Executable step = totals(world, 10, multimem());
  step.write("x", std::vector<float>(10, 4.0f));
  step.run();
  CHECK(elements_of(step, "y") == std::vector<float>(10, 4.0f));
}
