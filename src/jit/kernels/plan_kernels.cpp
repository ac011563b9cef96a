// Which kernels library steps need beside those of the plan.
#include "jit/kernels/plan_kernels.h"

#include <algorithm>

namespace coconet::jit {
namespace {

/// Whether a kernel takes the product of a matmul tile by tile.
bool needs_tile_signal(const sched::Plan& plan) {
  for (const sched::Overlap& overlap : plan.overlaps) {
    for (std::size_t producer = overlap.first; producer + 1 < overlap.first + overlap.count;
         ++producer) {
      const auto* matmul = std::get_if<sched::MatmulStep>(&plan.steps[producer]);
      const auto* consumer = std::get_if<sched::KernelStep>(&plan.steps[producer + 1]);
      if (matmul == nullptr || consumer == nullptr) continue;
      for (const auto& load : consumer->loads()) {
        if (load.arriving && load.buffer == matmul->out) return true;
      }
    }
  }
  return false;
}

/// What `step` needs where one launch sees the tensors of all ranks; without a name: nothing.
KernelText library_reduction(const sched::Plan& plan, const sched::LibraryStep& step) {
  const ir::Node& node = plan.graph.at(step.value);
  const int ranks = plan.graph.mesh.axes()[node.attributes.axis].size;
  if (ranks == 1 || !ir::reduces_over_ranks(node.op)) return {};
  const int results = node.op == ir::Op::all_reduce ? ranks : 1;
  return write_library_reduction(node.dtype, node.attributes.reduction, ranks, results);
}

}  // namespace

std::vector<KernelText> kernel_texts(const sched::Plan& plan, const Launching& launching) {
  std::vector<KernelText> texts = generate(plan);
  if (!launching.immediate && needs_tile_signal(plan)) texts.push_back(write_tile_signal());
  for (const sched::PlanStep& step : plan.steps) {
    const auto* library = std::get_if<sched::LibraryStep>(&step);
    if (library == nullptr || launching.ranks == 1) continue;
    KernelText text = library_reduction(plan, *library);
    if (!text.name.empty() && std::ranges::find(texts, text.name, &KernelText::name) == texts.end())
      texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace coconet::jit
