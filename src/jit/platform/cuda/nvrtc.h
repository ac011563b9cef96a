// NVRTC, loaded at run time: compiles kernel text to a cubin for a real architecture; needs no GPU
// and no driver. In builds without CUDA there is none (no_cuda.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/platform/compiler.h"

namespace coconet::jit {

namespace nvrtc {

/// Whether the library was built with NVRTC support and libnvrtc can be loaded.
[[nodiscard]] bool is_available();
/// "13.0", or why it is not available.
[[nodiscard]] std::string version();
/// The architectures that it compiles for, "sm_75", "sm_80", ...; none when it is not available.
[[nodiscard]] std::vector<std::string> architectures();
/// What the kernels of a compilation with this log take of a GPU.
[[nodiscard]] std::vector<KernelResources> resources(std::string_view log);

}  // namespace nvrtc

class NvrtcCompiler final : public Compiler {
 public:
  /// For `arch`, "sm_90" or "sm_90a", with line numbers for profilers if `line_info`; a launch runs
  /// `ranks` ranks. Does not load NVRTC where its identity is remembered. Throws CompileError when
  /// it is not available.
  explicit NvrtcCompiler(std::string_view arch, bool line_info = false, int ranks = 1);

  /// Throws CompileError when NVRTC does not know the architecture.
  [[nodiscard]] CompileResult compile(std::string_view source) const override;
};

}  // namespace coconet::jit
