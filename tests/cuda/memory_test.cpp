// Memory of GPUs: where tensors are, what is refused, and that everything is given back.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "refusal.h"
#include "require_exit.h"
#include "shipped.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("an executable gives everything back, in an order that the driver accepts") {
  const auto run = [](int ranks, const char* schedule) {
    World::local(ranks, [&](World& world) {
      Executable step = compile_shipped(world, "adam", schedule, 1000);
      for (const char* name : {"g", "w", "m", "v"}) step.data<float>(name);
      for (int t = 1; t <= 12; ++t) step.run({{"lr", 0.1}, {"t", static_cast<double>(t)}});
    });  // steps may still be running
  };
  run(1, "fused");  // contexts, the backends' own streams and kernels stay
  run(3, "fused");
  const auto before = stub_cuda::live();
  for (const char* schedule : {"fused", "sliced", "unfused"}) {
    for (const int ranks : {1, 3}) {
      INFO(schedule << " on " << ranks << " ranks");
      run(ranks, schedule);
      CHECK(stub_cuda::live() == before);
    }
  }
  for (const std::string& call : stub_cuda::calls()) CHECK_THAT(call, !Contains("failed="));
}

TEST_CASE("what does not fit a GPU is told with what was asked and what is free") {
  const Setting memory("STUB_CUDA_MEMORY", "67108864");
  const World world = World::self();
  Executable step = scale(world, 1 << 26);
  CHECK_THAT(refusal<BackendError>([&] { step.data<float>("x"); }),
             StartsWith("Stub 0, GPU 0 has no room for 256 MiB of tensors: ") &&
                 Contains(" MiB of its 64 MiB are free; make the tensors smaller"));
  const std::string shared = refusal<BackendError>(
      [] { World::local(2, [](World& own) { (void)own.allocate(f32, 1 << 26); }); });
  CHECK_THAT(shared, StartsWith("Stub 0, GPU 0 has no room for 256 MiB of tensors that other ranks "
                                "reach: "));
}

TEST_CASE("a large GPU's blocks take no more mailboxes than the budget, and the report tells") {
  // A process asks a GPU once for the number of its multiprocessors.
  (void)require_exit(run_test_case("mailboxes-of-a-large-gpu", "STUB_CUDA_SMS=132"));
}

TEST_CASE("host memory, misaligned memory and another GPU's memory are refused") {
  const World world = World::self();
  Executable step = scale(world, 100);
  std::vector<float> host(100);
  CHECK(refusal<BackendError>([&] { step.bind("x", host); }) ==
        "'x', 100 x f32 on rank 0, is bound to memory of the host, and COCONET_BACKEND is cuda; "
        "bind memory of the GPU, or copy the data with Executable::write");
  auto* const bytes = reinterpret_cast<std::byte*>(step.data<float>("x").data());
  CHECK_THAT(refusal<BackendError>([&] { step.bind("x", f32, bytes + 2, 100); }),
             Contains("is bound to memory that is not aligned to its 4-byte elements"));

  const Setting devices("STUB_CUDA_DEVICES", "2");
  const std::string said = refusal<BackendError>([] {
    World::local(2, [](World& own) {
      Executable mine = scale(own, 100);
      mine.data<float>("x");
      const Buffer both = own.allocate(f32, 100);
      mine.bind("x", both.of<float>(1 - own.rank()));
    });
  });
  CHECK_THAT(said,
             Contains("is bound to memory of GPU ") && Contains("and this rank runs on GPU "));
}

TEST_CASE("GPUs that do not reach each other are told as a pair of ranks") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  const Setting peers("STUB_CUDA_PEERS", "0");
  const std::string said = refusal<CommError>(
      [] { World::local(2, [](World& world) { (void)world.allocate(f32, 100); }); });
  CHECK_THAT(said, Contains("'s GPU (Stub ") && Contains(") cannot reach the memory of rank ") &&
                       Contains("use the schedule 'unfused', or GPUs that are connected"));
}

TEST_CASE("a write into unbound memory takes the library's own, and reads wait for the step") {
  const World world = World::self();
  Executable step = compile(total(world, 10), Schedule(), world);
  step.write("x", std::vector<float>(10, 4.0f));
  step.run();
  CHECK(elements_of(step, "y") == std::vector<float>(10, 4.0f));
  CHECK_THAT(refusal<BackendError>([&] { step.read("y", std::vector<float>(9)); }),
             Contains("so give 10"));
  CHECK_THAT(refusal<BackendError>([&] { step.write("x", std::vector<double>(10)); }),
             Contains("is used as f64; use it as f32"));
}
