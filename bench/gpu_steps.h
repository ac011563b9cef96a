// Steps that the measurements on a GPU put into a stopwatch's queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "gpu_timing.h"
#include "jit/comm/access.h"
#include "jit/platform/cuda/device.h"

namespace bench {

inline const coconet::jit::Platform& backend_of(const coconet::World& world) {
  return coconet::jit::cuda_platform_of(coconet::jit::comm_of(world));
}

/// Numbers like those of gradients and weights: a GPU takes less power, and runs faster, on memory
/// full of zeros.
inline std::vector<float> made_up(std::size_t n, std::uint32_t seed) {
  std::vector<float> values(n);
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1U << 24) - 0.5F;
  }
  return values;
}

/// A step of a shipped optimizer that goes into the stopwatch's queue on rank 0, whose GPU runs the
/// ranks' kernels together. With `lists`, its gradient and weights are scattered.
class OptimizerStep : public Contestant {
 public:
  OptimizerStep(const coconet::World& world, Stopwatch& watch, const std::string& program,
                std::size_t n, const std::string& schedule,
                const coconet::ParameterLists& lists = {})
      : executable_(coconet::compile(build(world, program, lists.empty()),
                                     coconet::Schedule::load(program + "-" + schedule + ".json"),
                                     world, {{"n", static_cast<std::int64_t>(n)}}, lists)) {
    if (world.rank() == 0) executable_.use_stream(watch.queue().handle());
    executable_.write(
        "g", made_up(executable_.count("g"), 1 + static_cast<std::uint32_t>(world.rank())));
    executable_.write("w", made_up(executable_.count("w"), 99));
    executable_.data<float>("m");
    executable_.data<float>("v");
    step = [this] { executable_.run({{"lr", 1e-3}, {"t", ++t_}}); };
    wait = [this] { executable_.synchronize(); };
  }

 private:
  static coconet::Program build(const coconet::World& world, const std::string& program,
                                bool whole) {
    const coconet::programs::Shipped& shipped = *coconet::programs::find(program);
    const auto build = whole ? shipped.build : shipped.scattered;
    return build(coconet::Mesh::over(world), coconet::f32);
  }

  coconet::Executable executable_;
  int t_ = 0;
};

}  // namespace bench
