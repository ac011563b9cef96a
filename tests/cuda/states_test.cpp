// Executables that share states, and that change their extents, on the emulated driver.
#include <functional>
#include <string>
#include <vector>

#include "elements.h"
#include "jit/platform/cuda/device.h"
#include "jit/run/state_checks.h"
#include "programs.h"
#include "refusal.h"
#include "stub.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// `body` on one rank, on two that share a GPU, and on two with a GPU each.
void in_worlds(const std::function<void(World&)>& body) {
  World::local(1, body);
  World::local(2, body);
  const Setting devices("STUB_CUDA_DEVICES", "2");
  World::local(2, body);
}

}  // namespace

TEST_CASE("steps and copies of executables that share states are in order across their streams") {
  for (const bool train_owns : {true, false}) {
    REQUIRE_NOTHROW(in_worlds([&](World& world) { check_alternation(world, 100, train_owns); }));
  }
}

TEST_CASE("resizing back and forth on a GPU leaves no memory, streams or events behind") {
  for (const bool fused : {false, true}) {
    INFO((fused ? "fused" : "unfused"));
    REQUIRE_NOTHROW(in_worlds([&](World& world) {
      (void)growth_of_resizes(world, 20, fused);  // the process holds what the stub library needs
    }));
    CHECK(stub_cuda::live("physical") == 0);
    std::string after[2];
    World::local(2, [&](World& world) {
      Executable step = compile_rows(world, 65, fused);
      for (int time = 0; time < 20; ++time) {
        for (const std::int64_t rows : {3, 65}) step.resize({{"B", rows}});
        step.write("x", std::vector<float>(step.count("x"), 1));
        step.run();
        step.synchronize();
        world.barrier();
        if (world.rank() == 0 && time == 2) after[0] = stub_cuda::live();
        if (world.rank() == 0 && time == 19) after[1] = stub_cuda::live();
        world.barrier();
      }
    });
    CHECK(after[0] == after[1]);
  }
}

TEST_CASE("a captured stream takes nothing of executables that share states, and no resize") {
  const World world = World::self();
  const jit::OnDevice current(jit::Device::at(0));
  stub_cuda::OwnStream stream;
  {
    Executable one = compile_look(world, 4), other = compile_look(world, 4);
    other.share_states(one);
    one.run();
    other.use_stream(stream.get());
    other.run();
    const std::string sentence =
        "the application's stream is being captured, but what an executable does that shares "
        "states "
        "with another one waits for that one's work, which is outside; do it outside the capture";
    REQUIRE(stream.begin_capture() == 0);
    CHECK(refusal<BackendError>([&] { other.run(); }) == sentence);
    CHECK(refusal<BackendError>([&] { other.write("w", std::vector<float>(4)); }) == sentence);
    CHECK(refusal<BackendError>([&] {
            other.resize({{"n", 5}});
          }) ==
          "the application's stream is being captured; resize an executable, reset it or share its "
          "states outside the capture");
    CHECK_THAT(refusal<BackendError>([&] { other.reset(); }),
               Catch::Matchers::StartsWith("the application's"));
    REQUIRE(stream.end_capture() == 0);
    CHECK(elements_of(one, "w") == std::vector<float>(4, 2));
    other.resize({{"n", 4}});
    CHECK_THAT(refusal<BackendError>([&] {
                 other.resize({{"n", 5}});
               }),
               Catch::Contains("state 'seen' is shared with another executable"));
  }
  CHECK(stream.destroy() == 0);
}
