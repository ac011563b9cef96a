// Kernels of programs, and what NVRTC makes of them.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/program.h"
#include "coconet/schedule.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/cuda/nvrtc.h"
#include "sched/plan.h"

namespace coconet::test {

inline std::vector<jit::KernelText> kernels_of(const Program& program,
                                               const Schedule& schedule = Schedule()) {
  return jit::generate(sched::lower(*ir::graph_of(schedule.apply(program).back())));
}

/// What NVRTC makes of `source`, which must compile.
inline jit::CompileResult compiled(const std::string& source, const char* arch = "sm_90") {
  jit::CompileResult result = jit::NvrtcCompiler(arch).compile(source);
  INFO(result.log);
  REQUIRE(result.ok);
  return result;
}

}  // namespace coconet::test
