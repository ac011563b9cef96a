// The kernels that `coconet compile` and `coconet cache explain` are asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/compiler.h"

namespace coconet::cli {

/// All kernels that an executable of the scheduled program needs on `arch`, with the knobs of the
/// environment. Throws UsageError and coconet::Error.
[[nodiscard]] std::vector<jit::KernelText> kernels_of(const CompileOptions& options,
                                                      const std::string& arch);

/// What to compile them for: "host", "sm_90".
[[nodiscard]] std::vector<std::string> archs_of(const CompileOptions& options);

/// The compiler that a run on `arch` would use. Throws CompileError when there is none.
[[nodiscard]] std::unique_ptr<jit::Compiler> compiler_for(const CompileOptions& options,
                                                          const std::string& arch);

}  // namespace coconet::cli
