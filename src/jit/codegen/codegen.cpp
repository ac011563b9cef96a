// Chooses the writer for a kernel step, and puts prelude and kernel together.
#include "jit/codegen/codegen.h"

#include "jit/codegen/kernel_writer.h"
#include "jit/prelude/embedded.h"

namespace coconet::jit {
namespace {

std::vector<std::string_view> prelude_files(std::string_view target,
                                            std::span<const std::string> headers) {
  std::vector<std::string_view> names{"types.h"};
  if (target == "cuda") {
    names.insert(names.end(), {"cuda/cuda.h", "threads.h"});
  } else if (target == "host_threads") {
    names.insert(names.end(), {"host/host.h", "host/threads.h", "threads.h"});
  } else {
    names.insert(names.end(), {"host/host.h", "host/lane.h"});
  }
  names.push_back("common.h");
  names.insert(names.end(), headers.begin(), headers.end());
  return names;
}

}  // namespace

KernelText generate(const sched::Plan& plan, const sched::KernelStep& step) {
  return step.is_reduction() ? write_reduction(plan, step) : write_pointwise(plan, step);
}

std::vector<KernelText> generate(const sched::Plan& plan) {
  std::vector<KernelText> kernels;
  for (const sched::PlanStep& step : plan.steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step))
      kernels.push_back(generate(plan, *kernel));
  }
  return kernels;
}

std::string prelude(std::string_view target, std::span<const std::string> headers) {
  std::string text;
  for (const std::string_view name : prelude_files(target, headers))
    text += std::string(prelude_file(name)) + "\n";
  return text;
}

std::string prelude_digests(std::string_view target, std::span<const std::string> headers) {
  std::string text;
  for (const std::string_view name : prelude_files(target, headers))
    text += std::string(name) + " " + std::string(prelude_digest(name)) + "\n";
  return text;
}

std::string complete_source(const KernelText& kernel, std::string_view target) {
  return prelude(target, kernel.headers) + kernel.source;
}

std::string op_at_line(std::string_view source, int line) {
  constexpr std::string_view mark = "// op ";
  std::string op;
  int number = 0;
  while (!source.empty() && number < line) {
    const std::size_t end = source.find('\n');
    const std::string_view text = source.substr(0, end);
    if (const std::size_t at = text.find(mark); at != std::string_view::npos)
      op = text.substr(at + mark.size());
    if (text.starts_with("KERNEL_ENTRY")) op.clear();
    source = end == std::string_view::npos ? std::string_view() : source.substr(end + 1);
    ++number;
  }
  return op;
}

}  // namespace coconet::jit
