// Sums of one run at a time.
#include "jit/run/kernel_waits.h"

#include <utility>

namespace coconet::jit {

void KernelWaits::end_run(const std::function<int(std::size_t step)>& blocks_at_once) {
  if (!timed_) return;
  for (std::size_t step = 0; step < sums_.size(); ++step) {
    const auto sum = static_cast<std::int64_t>(std::exchange(sums_[step], 0));
    times_[step].add(std::chrono::nanoseconds(sum / blocks_at_once(step)));
  }
}

}  // namespace coconet::jit
