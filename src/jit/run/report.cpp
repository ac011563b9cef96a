// Reports of what the steps did and how near to the machine's limits they came.
#include <fmt/format.h>

#include <algorithm>

#include "jit/kernels/kernel_store.h"
#include "jit/run/executable_state.h"
#include "sched/cost/work.h"

namespace coconet {

using namespace jit;

Report Executable::report() {
  const Bound& bound = state().bound();
  Runner& runner = state().runner();
  Roofline& roofline = state().roofline();
  Report report;
  runner.collect_times();
  report.runs = runner.runs();
  report.cores = bound.cores.count;
  report.ms = runner.run_ms();
  report.table_bytes = bound.tables.bytes();
  report.cache = cache_counters();
  report.notes = bound.notes;
  if (const auto copied = bound.tensors.copied(); !copied.empty()) {
    report.notes.push_back(
        fmt::format("each step copies '{}', because other ranks do not reach the memory that is "
                    "bound; bind Buffers of World::allocate, or use Executable::data",
                    fmt::join(copied, "', '")));
  }
  const std::vector<sched::Moved> traffic =
      sched::traffic_of(bound.plan.plan(), sched::work_of(bound.plan.plan(), bound.plan.sizes()));
  for (std::size_t index = 0; index < bound.steps.size(); ++index) {
    const Step& step = bound.steps[index];
    KernelReport row;
    row.name = step.name;
    row.kind = step.kind;
    row.ms = runner.step_ms(index);
    row.bytes = std::visit([&](const auto& work) { return work.bytes(bound.tensors); }, step.work);
    row.peer_bytes = static_cast<std::uint64_t>(traffic[index].remote);
    if (const auto* kernel = std::get_if<KernelLaunch>(&step.work))
      row.exchange_bytes = kernel->exchange_bytes();
    double bound_ms = roofline.copy_ms(row.bytes);
    if (const auto* matmul = std::get_if<Matmul>(&step.work)) {
      const double multiply_ms = roofline.multiply_ms(matmul->dtype(), matmul->operations());
      if (multiply_ms > bound_ms) row.bound = "arithmetic";
      bound_ms = std::max(bound_ms, multiply_ms);
    }
    if (row.ms > 0) row.roofline_share = bound_ms / row.ms;
    report.bytes += row.bytes;
    report.peer_bytes += row.peer_bytes;
    if (report.ms > 0) report.roofline_share += bound_ms / report.ms;
    report.kernels.push_back(std::move(row));
  }
  runner.let_times_go();
  return report;
}

bool KernelReport::is_slow() const {
  constexpr double least_share = 0.3, least_ms = 0.1;
  return roofline_share > 0 && roofline_share < least_share && ms >= least_ms;
}

std::string Report::str() const {
  std::string text = fmt::format("{:<24} {:<12} {:>10} {:>14} {:>14} {:>20} {:>14}\n", "kernel",
                                 "kind", "ms", "bytes", "of peers", "roofline", "exchange bytes");
  for (const KernelReport& kernel : kernels) {
    const char* const limit = kernel.bound == "arithmetic"
                                  ? "what a product of large matrices reaches here"
                                  : "what a copy reaches here";
    text += fmt::format("{:<24} {:<12} {:>10.4f} {:>14} {:>14} {:>20} {:>14}{}\n", kernel.name,
                        kernel.kind, kernel.ms, kernel.bytes, kernel.peer_bytes,
                        fmt::format("{:.0f}% of {}", 100 * kernel.roofline_share, kernel.bound),
                        kernel.exchange_bytes,
                        kernel.is_slow() ? fmt::format("   slow: below 30 % of {}", limit) : "");
  }
  text +=
      fmt::format("{:<24} {:<12} {:>10.4f} {:>14} {:>14} {:>20}   median of {} runs{}\n", "step",
                  "", ms, bytes, peer_bytes, fmt::format("{:.0f}% of bounds", 100 * roofline_share),
                  runs, cores > 1 ? fmt::format(", {} cores a rank", cores) : "");
  if (table_bytes > 0) text += fmt::format("tables of scattered tensors: {} bytes\n", table_bytes);
  for (const std::string& note : notes) text += note + "\n";
  return text + describe(cache) + "\n";
}

}  // namespace coconet
