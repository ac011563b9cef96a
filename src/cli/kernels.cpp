// From a command line to kernels and compilers; see kernels.h.
#include "cli/kernels.h"

#include <algorithm>

#include "cli/program_spec.h"
#include "coconet/config.h"
#include "coconet/program.h"
#include "ir/access.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/platform/platform.h"
#include "sched/knobs.h"
#include "sched/overlaps.h"
#include "sched/plan.h"

namespace coconet::cli {

namespace {

/// Ranks whose kernels one launch runs.
int ranks_per_launch(const CompileOptions& options, const std::string& arch) {
  if (!options.share_gpu || jit::target_of(arch).immediate) return 1;
  return ResolvedSpec(options.spec).ranks_to_plan_for(options.ranks);
}

}  // namespace

std::vector<jit::KernelText> kernels_of(const CompileOptions& options, const std::string& arch) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Program scheduled =
      sched::with_knobs(resolved.schedule().apply(program).back(), config().knobs);
  const jit::Launching launching{.immediate = jit::target_of(arch).immediate,
                                 .ranks = ranks_per_launch(options, arch)};
  const sched::Plan plan = sched::lower(*ir::graph_of(scheduled));
  std::vector<jit::KernelText> texts = jit::kernel_texts(plan, launching);
  if (plan.overlaps.empty()) return texts;
  // A machine without room for an overlap runs the kernels of its steps one after the other.
  ir::Graph in_order = *ir::graph_of(scheduled);
  for (const sched::Overlap& overlap : plan.overlaps)
    in_order = sched::without_overlap(std::move(in_order), overlap);
  for (jit::KernelText& text : jit::kernel_texts(sched::lower(in_order), launching)) {
    const bool known = std::ranges::any_of(
        texts, [&](const jit::KernelText& other) { return other.source == text.source; });
    if (!known) texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> archs_of(const CompileOptions& options) {
  if (!options.archs.empty()) return options.archs;
  return {config().arch.empty() ? "host" : config().arch};
}

std::unique_ptr<jit::Compiler> compiler_for(const CompileOptions& options,
                                            const std::string& arch) {
  return jit::target_of(arch).make_compiler(arch, config(), ranks_per_launch(options, arch));
}

}  // namespace coconet::cli
