// Times of this rank's steps, without communication.
#include "jit/run/executable_state.h"

namespace coconet {

LocalStats Executable::State::local_stats() {
  LocalStats stats;
  stats.runs = runner().runs();
  stats.wait_p50_ms = runner().waits().quantile_ms(0.5);
  stats.wait_p99_ms = runner().waits().quantile_ms(0.99);
  const jit::Sampler* const times = runner().local_times();
  if (times != nullptr) {
    stats.count = times->run_times().count();
    stats.p50_ms = times->run_times().quantile_ms(0.5);
    stats.p99_ms = times->run_times().quantile_ms(0.99);
    stats.least_ms = times->run_times().quantile_ms(0);
  }
  for (std::size_t index = 0; index < bound().steps.size(); ++index) {
    KernelStats kernel;
    kernel.name = bound().steps[index].name;
    kernel.kind = bound().steps[index].kind;
    if (times != nullptr) {
      const jit::Times& own = times->step_times(index);
      kernel.count = own.count();
      kernel.p50_ms = own.quantile_ms(0.5);
      kernel.p99_ms = own.quantile_ms(0.99);
      kernel.least_ms = own.quantile_ms(0);
    }
    kernel.wait_p50_ms = runner().kernel_waits(index).quantile_ms(0.5);
    kernel.wait_p99_ms = runner().kernel_waits(index).quantile_ms(0.99);
    stats.kernels.push_back(std::move(kernel));
  }
  return stats;
}

}  // namespace coconet
