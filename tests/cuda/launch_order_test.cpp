// Executables that wait for other ranks take turns on a GPU, and who has nobody to take turns with
// pays nothing.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "cuda/programs.h"
#include "cuda/stub.h"
#include "elements.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/platform/cuda/device.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// y = the sum of all ranks' x, in a kernel of its own, after its first runs.
Executable fused_total(const World& world) {
  Executable step =
      compile(total(world, 1000), Schedule("total").fuse("adds", "all_reduce", {"sum"}), world);
  step.write("x", std::vector<float>(1000, 1.0f));
  // Steps are timed between events at first.
  for (int run = 0; run < 9; ++run) step.run();
  step.synchronize();
  return step;
}

struct Counts {
  std::size_t records = 0, waits = 0;
};

/// What two ranks with a GPU each ask the driver for during `body`.
template <class Body>
Counts count(World& world, const Body& body) {
  jit::comm_of(world).barrier();
  if (world.rank() == 0) stub_cuda::clear();
  jit::comm_of(world).barrier();
  body();
  jit::comm_of(world).barrier();
  const Counts counts{stub_cuda::calls("cuEventRecord").size(),
                      stub_cuda::calls("cuStreamWaitEvent").size()};
  jit::comm_of(world).barrier();  // what a rank asks for next does not count
  return counts;
}

/// Calls `body` while a stream of the application in which `one` has just run is captured. The
/// capture must end as it began.
template <class Body>
void while_captured(World& world, Executable& one, const Body& body) {
  const jit::OnDevice current(jit::Device::at(world.rank()));
  const stub_cuda::OwnStream stream;
  one.use_stream(stream.get());
  one.run();
  if (stream.begin_capture() != 0) throw InternalError("no capture");
  body();
  if (stream.end_capture() != 0) throw InternalError("the capture was disturbed");
  one.use_stream(nullptr);
  one.synchronize();
}

}  // namespace

TEST_CASE("executables take turns by events, but where their streams are in order anyway") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  Counts alone, in_turns, same_stream, last;
  World::local(2, [&](World& world) {
    Executable one = fused_total(world);
    const auto several = [&] {
      for (int run = 0; run < 5; ++run) one.run();
    };
    const Counts of_one = count(world, several);
    Counts of_two, of_stream;
    {
      Executable other = fused_total(world);
      of_two = count(world, [&] {
        for (int run = 0; run < 3; ++run) {
          one.run();
          other.run();
          other.run();
        }
      });
      one.use_stream(nullptr);
      other.use_stream(nullptr);
      one.run();
      of_stream = count(world, [&] {
        for (int run = 0; run < 3; ++run) {
          one.run();
          other.run();
        }
      });
    }
    const Counts afterwards = count(world, several);
    if (world.rank() > 0) return;
    alone = of_one;
    in_turns = of_two;
    same_stream = of_stream;
    last = afterwards;
  });
  CHECK(alone.records + alone.waits == 0);
  // Two turns of each pair on both GPUs; before the first, `other` ran last.
  CHECK(in_turns.records == 12);
  CHECK(in_turns.waits == 12);
  CHECK(same_stream.records + same_stream.waits == 0);
  CHECK(last.records + last.waits == 0);
}

TEST_CASE("an executable goes on behind the application's stream that is captured since") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  World::local(2, [&](World& world) {
    Executable one = fused_total(world);
    Executable other = fused_total(world);
    std::vector<float> y;
    while_captured(world, one, [&] {
      other.run();
      y = elements_of(other, "y");
    });
    if (y != std::vector<float>(1000, 2.0f)) throw InternalError("wrong sums");
  });
}

TEST_CASE("no executable comes behind work in a stream that is captured before it is known") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  World::local(2, [&](World& world) {
    Executable one = fused_total(world);
    std::string told;
    while_captured(world, one,
                   [&] { told = refusal<BackendError>([&] { (void)fused_total(world); }); });
    if (told.find("an executable has work in a stream on Stub") == std::string::npos)
      throw InternalError(told);
  });
}
