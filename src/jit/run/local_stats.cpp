// Times of this rank's steps, without communication.
#include "jit/run/executable_state.h"

namespace coconet {
namespace {

/// Sets what `LocalStats` and `KernelStats` have alike.
template <class Stats>
void set_times(Stats& stats, const jit::Times* own, const jit::Times& waits) {
  if (own != nullptr) {
    stats.count = own->count();
    stats.p50_ms = own->quantile_ms(0.5);
    stats.p99_ms = own->quantile_ms(0.99);
    stats.least_ms = own->quantile_ms(0);
  }
  stats.wait_p50_ms = waits.quantile_ms(0.5);
  stats.wait_p99_ms = waits.quantile_ms(0.99);
}

}  // namespace

LocalStats Executable::local_stats() {
  jit::Runner& runner = state().runner();
  const std::vector<jit::Step>& steps = state().bound().steps;
  const jit::Sampler* const times = runner.local_times();
  LocalStats stats;
  stats.runs = runner.runs();
  set_times(stats, times != nullptr ? &times->run_times() : nullptr, runner.waits());
  for (std::size_t index = 0; index < steps.size(); ++index) {
    KernelStats& kernel = stats.kernels.emplace_back();
    kernel.name = steps[index].name;
    kernel.kind = steps[index].kind;
    set_times(kernel, times != nullptr ? &times->step_times(index) : nullptr,
              runner.kernel_waits(index));
  }
  return stats;
}

}  // namespace coconet
