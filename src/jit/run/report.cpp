// Reports of what the steps did and how near to the memory's limit they came.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "jit/kernels/kernel_store.h"
#include "jit/run/executable_state.h"

namespace coconet {

using namespace jit;

/// Collective: milliseconds that copying takes when it moves `bytes` (half read, half written) on
/// all ranks at once; best of several passes over a working set of that size.
double Executable::State::copy_ms(std::uint64_t bytes) {
  Comm& comm = bound.comm();
  const Platform& platform = bound.platform;
  // Slices differ by rank; all ranks must measure the same size together.
  std::uint64_t largest = bytes;
  for (const std::string& other : comm.all_gather(std::to_string(bytes)))
    largest = std::max<std::uint64_t>(largest, std::stoull(other));
  const int exponent = std::clamp(static_cast<int>(std::bit_width(largest)) - 1, 10, 28);
  const auto known = ms_per_byte_.find(exponent);
  if (known != ms_per_byte_.end()) return known->second * static_cast<double>(bytes);

  const std::size_t half = std::size_t{1} << (exponent - 1);
  std::shared_ptr<Memory> from, to;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Event> begin, end;
  together(comm, [&] {
    from = platform.allocate(half);
    to = platform.allocate(half);
    queue = platform.make_queue();
    begin = platform.make_event();
    end = platform.make_event();
    queue->zero(from->data(), half);  // backed by pages from here on
    queue->zero(to->data(), half);
    queue->finish();
  });
  // Some milliseconds a pass, or one copy; a GPU's copies each take microseconds to begin.
  const std::size_t most = platform.traits().immediate ? std::size_t{1} << 13 : 32;
  const std::size_t copies = std::clamp<std::size_t>((std::size_t{1} << 22) / half, 1, most);
  double best = 0;
  for (int pass = 0; pass < 7; ++pass) {
    begin->record(*queue);
    for (std::size_t i = 0; i < copies; ++i) queue->copy(to->data(), from->data(), half);
    end->record(*queue);
    queue->finish();
    const double per_byte = static_cast<double>(end->ms_since(*begin)) /
                            static_cast<double>(copies) / static_cast<double>(2 * half);
    best = pass == 0 ? per_byte : std::min(best, per_byte);
  }
  comm.barrier();
  ms_per_byte_[exponent] = best;
  return best * static_cast<double>(bytes);
}

Report Executable::State::report() {
  Report report;
  runner.collect_times();
  report.runs = runner.runs();
  report.ms = runner.run_ms();
  report.table_bytes = bound.tables.bytes();
  report.cache = cache_counters();
  for (std::size_t index = 0; index < bound.steps.size(); ++index) {
    const Step& step = bound.steps[index];
    KernelReport row;
    row.name = step.name;
    row.kind = step.kind;
    row.ms = runner.step_ms(index);
    row.bytes = std::visit([&](const auto& work) { return work.bytes(bound.tensors); }, step.work);
    if (const auto* kernel = std::get_if<KernelLaunch>(&step.work))
      row.exchange_bytes = kernel->exchange_bytes();
    if (row.ms > 0) row.roofline_share = copy_ms(row.bytes) / row.ms;
    report.kernels.push_back(std::move(row));
  }
  runner.let_times_go();
  return report;
}

std::string Report::str() const {
  std::string text = fmt::format("{:<24} {:<12} {:>10} {:>14} {:>9} {:>14}\n", "kernel", "kind",
                                 "ms", "bytes", "roofline", "exchange bytes");
  for (const KernelReport& kernel : kernels) {
    text +=
        fmt::format("{:<24} {:<12} {:>10.4f} {:>14} {:>8.0f}% {:>14}\n", kernel.name, kernel.kind,
                    kernel.ms, kernel.bytes, 100 * kernel.roofline_share, kernel.exchange_bytes);
  }
  text += fmt::format("{:<24} {:<12} {:>10.4f}   median of {} runs\n", "step", "", ms, runs);
  if (table_bytes > 0) text += fmt::format("tables of scattered tensors: {} bytes\n", table_bytes);
  return text + describe(cache) + "\n";
}

}  // namespace coconet
