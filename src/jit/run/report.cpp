// Reports of what the steps did and how near to the memory's limit they came.
#include <fmt/format.h>

#include "jit/kernels/kernel_store.h"
#include "jit/run/executable_state.h"

namespace coconet {

Report Executable::State::report() {
  Report report;
  runner.collect_times();
  report.runs = runner.runs();
  report.ms = runner.run_ms();
  report.table_bytes = bound.tables.bytes();
  report.cache = jit::cache_counters();
  for (std::size_t index = 0; index < bound.steps.size(); ++index) {
    const jit::Step& step = bound.steps[index];
    KernelReport row;
    row.name = step.name;
    row.kind = step.kind;
    row.ms = runner.step_ms(index);
    row.bytes = std::visit([&](const auto& work) { return work.bytes(bound.tensors); }, step.work);
    const double copy_ms =
        row.ms > 0 ? roofline.copy_ms(bound.comm(), bound.platform, row.bytes) : 0;
    row.roofline_share = row.ms > 0 ? copy_ms / row.ms : 0;
    report.kernels.push_back(std::move(row));
  }
  return report;
}

std::string Report::str() const {
  std::string text = fmt::format("{:<24} {:<12} {:>10} {:>14} {:>9}\n", "kernel", "kind", "ms",
                                 "bytes", "roofline");
  for (const KernelReport& kernel : kernels) {
    text += fmt::format("{:<24} {:<12} {:>10.4f} {:>14} {:>8.0f}%\n", kernel.name, kernel.kind,
                        kernel.ms, kernel.bytes, 100 * kernel.roofline_share);
  }
  text += fmt::format("{:<24} {:<12} {:>10.4f}   median of {} runs\n", "step", "", ms, runs);
  if (table_bytes > 0) text += fmt::format("tables of scattered tensors: {} bytes\n", table_bytes);
  return text + jit::describe(cache) + "\n";
}

}  // namespace coconet
