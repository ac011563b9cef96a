// Chooses the writer for a kernel step, and puts prelude and kernel together.
#include "jit/codegen/codegen.h"

#include <algorithm>
#include <initializer_list>

#include "jit/abi/abi.h"
#include "jit/codegen/kernel_writer.h"
#include "jit/prelude/embedded.h"
#include "sched/kernels.h"

namespace coconet::jit {
namespace {

std::vector<std::string> prelude_files(std::string_view target,
                                       std::span<const std::string> headers) {
  std::vector<std::string> names{"types.h"};
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (target == "cuda") {
    add({"cuda/cuda.h", "cuda/vectors.h"});
  } else {
    add({"host/host.h", "host/vectors.h"});
  }
  add({"abi/launch.h", "abi/slices.h", "abi/mailboxes.h", "abi/topologies.h", "abi/tiles.h",
       "abi/buckets.h", "abi/segments.h"});
  if (target == "host_threads") add({"host/threads.h"});
  add({target == "host" ? "host/lane.h" : "threads.h", "common.h", "ranks.h"});
  // A header of the same name in host/ is for blocks of one lane.
  for (const std::string& header : headers) {
    if (header == "functions.h" && target != "cuda") add({"host/math.h", "host/waves.h"});
    if (header == "lookups.h") add({"abi/lookups.h"});
    const std::string of_host = "host/" + header;
    names.push_back(target == "host" && !prelude_file(of_host).empty() ? of_host : header);
  }
  return names;
}

bool stores_per_buffer(const ir::Graph& graph, const sched::KernelStep& step) {
  return std::ranges::any_of(step.scalar_stores, [&](const auto& store) {
    return sched::is_per_buffer(graph, step.domain, store.value);
  });
}

}  // namespace

std::size_t bytes_of(KernelArgument::Kind kind, std::size_t ranks) {
  switch (kind) {
#define COCONET_ARGUMENT(kind, field, head, by_rank) \
  case KernelArgument::Kind::kind:                   \
    return (head) + ((by_rank) ? ranks * sizeof(void*) : 0);
#include "jit/codegen/arguments.def"
#undef COCONET_ARGUMENT
  }
  return 0;
}

int widest_element(const sched::Plan& plan, const sched::KernelStep& step) {
  std::size_t widest = 1;
  const auto widen = [&](const auto& accesses) {
    for (const auto& access : accesses) {
      const auto& buffer = plan.buffers[static_cast<std::size_t>(access.buffer)];
      widest = std::max(widest, size_of(buffer.dtype));
    }
  };
  for (const sched::KernelStep::Phase& phase : step.phases) {
    widen(phase.loads);
    widen(phase.stores);
  }
  return static_cast<int>(widest);
}

int lanes_of(const sched::Plan& plan, const sched::KernelStep& step, int vector_bytes) {
  const int bytes = step.knobs.vector_bytes == 0 ? vector_bytes : step.knobs.vector_bytes;
  return std::max(1, bytes / widest_element(plan, step));
}

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
  for (const std::string& name : prelude_files(target, headers))
    text += std::string(prelude_file(name)) + "\n";
  return text;
}

std::string prelude_digests(std::string_view target, std::span<const std::string> headers) {
  std::string text;
  for (const std::string& name : prelude_files(target, headers))
    text += name + " " + std::string(prelude_digest(name)) + "\n";
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

TotalsOf totals_of(const ir::Graph& graph, const sched::KernelStep& step) {
  TotalsOf totals;
  for (const ir::ValueId id : step.reductions())
    ++(graph.at(id).attributes.per_buffer ? totals.per_buffer : totals.whole);
  totals.counts_blocks =
      !step.is_reduction() && (!step.reductions().empty() || stores_per_buffer(graph, step));
  return totals;
}

bool tells_buffers_in(const sched::KernelStep& step, const ir::Graph& graph) {
  return totals_of(graph, step).per_buffer > 0 || stores_per_buffer(graph, step);
}

}  // namespace coconet::jit
