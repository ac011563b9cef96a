// Reports of what the steps did and how near to the memory's limit they came.
#include <algorithm>
#include <array>
#include <cstdio>

#include "jit/kernels/kernel_store.h"
#include "jit/run/executable_state.h"

namespace coconet {

namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> line{};
  const int length = std::snprintf(line.data(), line.size(), pattern, args...);
  return {line.data(), std::min(line.size() - 1, static_cast<std::size_t>(std::max(0, length)))};
}

}  // namespace

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
    row.bytes = std::visit(
        [&](const auto& work) {
          if constexpr (std::is_same_v<std::decay_t<decltype(work)>, jit::KernelLaunch>) {
            return work.bytes();
          } else {
            return work.bytes(bound.tensors);
          }
        },
        step.work);
    const double copy_ms =
        row.ms > 0 ? roofline.copy_ms(bound.comm(), bound.platform, row.bytes) : 0;
    row.roofline_share = row.ms > 0 ? copy_ms / row.ms : 0;
    report.kernels.push_back(std::move(row));
  }
  return report;
}

std::string Report::str() const {
  std::string text =
      format("%-24s %-12s %10s %14s %9s\n", "kernel", "kind", "ms", "bytes", "roofline");
  for (const KernelReport& kernel : kernels) {
    text += format("%-24s %-12s %10.4f %14llu %8.0f%%\n", kernel.name.c_str(), kernel.kind.c_str(),
                   kernel.ms, static_cast<unsigned long long>(kernel.bytes),
                   100 * kernel.roofline_share);
  }
  text += format("%-24s %-12s %10.4f   median of %llu runs\n", "step", "", ms,
                 static_cast<unsigned long long>(runs));
  if (table_bytes > 0) {
    text += format("tables of scattered tensors: %llu bytes\n",
                   static_cast<unsigned long long>(table_bytes));
  }
  text += jit::describe(cache) + "\n";
  return text;
}

}  // namespace coconet
