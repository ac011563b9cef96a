// From a command line to kernels and compilers; see kernels.h.
#include "cli/kernels.h"

#include "cli/program_spec.h"
#include "coconet/config.h"
#include "coconet/program.h"
#include "jit/platform/host/compiler.h"
#include "jit/platform/nvrtc.h"
#include "sched/knobs.h"
#include "sched/plan.h"

namespace coconet::cli {

std::vector<jit::KernelText> kernels_of(const CompileOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const Program program = resolved.program(resolved.ranks_to_plan_for(options.ranks));
  const Program scheduled =
      sched::with_knobs(resolved.schedule().apply(program).back(), config().knobs);
  return jit::generate(sched::lower(*scheduled.graph()));
}

std::vector<std::string> archs_of(const CompileOptions& options) {
  if (!options.archs.empty()) return options.archs;
  return {config().arch.empty() ? "host" : config().arch};
}

std::unique_ptr<jit::Compiler> compiler_for(const std::string& arch) {
  if (arch == "host") {
    return std::make_unique<jit::HostCompiler>(config().cxx, config().cxx_flags,
                                               config().compile_timeout, config().host_threads);
  }
  return std::make_unique<jit::NvrtcCompiler>(arch, config().line_info);
}

}  // namespace coconet::cli
