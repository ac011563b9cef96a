// From a command line to kernels and compilers; see kernels.h.
#include "cli/kernels.h"

#include "cli/program_spec.h"
#include "coconet/config.h"
#include "coconet/program.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/host/compiler.h"
#include "sched/knobs.h"
#include "sched/plan.h"

namespace coconet::cli {

namespace {

constexpr std::string_view host = "host";

/// Ranks whose kernels one launch runs.
int ranks_per_launch(const CompileOptions& options, const std::string& arch) {
  if (!options.share_gpu || arch == host) return 1;
  return ResolvedSpec(options.spec).ranks_to_plan_for(options.ranks);
}

}  // namespace

std::vector<jit::KernelText> kernels_of(const CompileOptions& options, const std::string& arch) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Program scheduled =
      sched::with_knobs(resolved.schedule().apply(program).back(), config().knobs);
  return jit::kernel_texts(sched::lower(*scheduled.graph()),
                           {.immediate = arch == host, .ranks = ranks_per_launch(options, arch)});
}

std::vector<std::string> archs_of(const CompileOptions& options) {
  if (!options.archs.empty()) return options.archs;
  return {config().arch.empty() ? std::string(host) : config().arch};
}

std::unique_ptr<jit::Compiler> compiler_for(const CompileOptions& options,
                                            const std::string& arch) {
  if (arch == host) {
    return std::make_unique<jit::HostCompiler>(config().cxx, config().cxx_flags,
                                               config().compile_timeout, config().host_threads);
  }
  return std::make_unique<jit::NvrtcCompiler>(arch, config().line_info,
                                              ranks_per_launch(options, arch));
}

}  // namespace coconet::cli
