// How long the kernels of a rank wait for other ranks, and for steps that run beside them. Kernels
// keep that on the host only: on a GPU it would cost them registers, and so blocks.
#pragma once

#include <utility>

#include "jit/run/sampler.h"

namespace coconet::jit {

/// Times that kernels keep themselves, in some runs only: two looks at a clock for every wait are a
/// part of a small step that one notices.
class KernelWaits {
 public:
  explicit KernelWaits(std::size_t steps) : sums_(steps), times_(steps) {}

  /// Kernels are prepared for another run from here on; `timed`: which keeps its waits.
  void begin_run(bool timed) { timed_ = timed; }
  /// Where the kernel of step `step` adds the nanoseconds that its blocks wait; null: nowhere.
  [[nodiscard]] std::uint64_t* sum(std::size_t step) { return timed_ ? &sums_[step] : nullptr; }
  /// The run that began is over. `blocks_at_once(step)` blocks share its sum.
  template <class BlocksAtOnce>
  void end_run(const BlocksAtOnce& blocks_at_once) {
    for (std::size_t step = 0; timed_ && step < sums_.size(); ++step) {
      const auto sum = static_cast<std::int64_t>(std::exchange(sums_[step], 0));
      times_[step].add(std::chrono::nanoseconds(sum / blocks_at_once(step)));
    }
  }

  /// Of step `step`, the mean of its blocks, by run.
  [[nodiscard]] const Times& times(std::size_t step) const { return times_[step]; }

 private:
  std::vector<std::uint64_t> sums_;
  std::vector<Times> times_;
  bool timed_ = false;
};

}  // namespace coconet::jit
