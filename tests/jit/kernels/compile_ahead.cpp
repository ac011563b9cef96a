// Compiling many kernels at a time.
#include "jit/kernels/compile_ahead.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "ir/access.h"
#include "jit/kernels/kernel_batch.h"
#include "jit/kernels/kernel_store.h"
#include "jit/platform/platform.h"
#include "sched/plan.h"

namespace coconet::test {

namespace {

// More at a time make the compiler slower than linear; fewer repeat the prelude.
constexpr std::size_t kernels_in_a_unit = 32;

void compile_unit(std::span<const jit::KernelText* const> kernels) {
  const jit::Platform& backend = jit::host_platform();
  jit::KernelBatch unit(backend.compiler().target());
  for (const jit::KernelText* kernel : kernels) unit.add(*kernel);
  const jit::CompileResult result = backend.compiler().compile(unit.source());
  if (!result.ok) return;
  const auto loaded = jit::load_host_kernels(result.binary, unit.entries());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    jit::keep_kernel(backend, *kernels[i], loaded[i]);
}

}  // namespace

void CompileAhead::add(const Program& program, const Schedule& schedule) {
  const std::vector<Program> steps = schedule.apply(program);
  for (jit::KernelText& text : jit::generate(sched::lower(*ir::graph_of(steps.back()))))
    kernels_.try_emplace(text.source, std::move(text));
}

void CompileAhead::compile() const {
  if (config().backend != "host") return;
  std::vector<const jit::KernelText*> kernels;
  for (const auto& [source, text] : kernels_) kernels.push_back(&text);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t first = next.fetch_add(kernels_in_a_unit); first < kernels.size();
         first = next.fetch_add(kernels_in_a_unit)) {
      const std::size_t count = std::min(kernels_in_a_unit, kernels.size() - first);
      compile_unit(std::span(kernels).subspan(first, count));
    }
  };
  std::vector<std::jthread> threads(std::max(1U, std::thread::hardware_concurrency()));
  for (std::jthread& thread : threads) thread = std::jthread(work);
}

}  // namespace coconet::test
