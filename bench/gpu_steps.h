// Steps that the measurements on a GPU put into a stopwatch's queue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "gpu_table.h"
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

/// A copy on the GPU of `bytes` bytes, put into the stopwatch's queue.
class Copy : public Contestant {
 public:
  Copy(const coconet::jit::Platform& platform, Stopwatch& watch, std::size_t bytes)
      : bytes_(bytes), from_(platform.allocate(bytes)), to_(platform.allocate(bytes)) {
    const std::vector<float> data = made_up(std::size_t{1} << 18, 7);
    for (std::size_t at = 0; at < bytes; at += data.size() * sizeof(float)) {
      const std::size_t left = std::min(bytes - at, data.size() * sizeof(float));
      watch.queue().copy(from_->data() + at, data.data(), left);
    }
    watch.queue().finish();
    step = [this, &watch] { watch.queue().copy(to_->data(), from_->data(), bytes_); };
  }
  /// What a step reads and writes.
  [[nodiscard]] double gigabytes() const { return 2e-9 * static_cast<double>(bytes_); }
  /// "2000 GB/s": the rate at which as many bytes take `of_ms`.
  [[nodiscard]] std::string rate(double of_ms) const {
    return decimals(gigabytes() / of_ms * 1e3, 0) + " GB/s";
  }

 private:
  std::size_t bytes_;
  std::shared_ptr<coconet::jit::Memory> from_, to_;
};

}  // namespace bench
