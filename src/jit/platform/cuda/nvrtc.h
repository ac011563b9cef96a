// NVRTC, loaded at run time: compiles kernel text to a cubin for a real architecture, or to PTX;
// needs no GPU and no driver. In builds without CUDA there is none (no_cuda.cpp).
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
/// The file that it was loaded from.
[[nodiscard]] std::string file();
/// The architectures that it compiles for, "sm_75", "sm_80", ...; none when it is not available.
/// Does not load it where they are remembered.
[[nodiscard]] std::vector<std::string> architectures();

/// What kernels are compiled for.
struct Target {
  std::string arch;  ///< "sm_90" for a cubin, "compute_90" for PTX; empty: there is nothing
  std::string
      why;  ///< where that is not the GPU's own: what NVRTC does instead, "does not know ..."
};
/// For a GPU of `arch`, with an NVRTC that compiles for `known`: its own architecture, else the
/// newest older one of the same major number, else PTX for the newest older one.
[[nodiscard]] Target target_for(std::string_view arch,
                                const std::vector<std::string>& known = architectures());

/// How many registers a thread may have for one more block of `default_threads` to run on a
/// multiprocessor beside those that run with `registers`, where that is worth compiling again: it
/// takes few registers, and fewer than half of an H100's warps run. Else 0.
[[nodiscard]] int register_bound(int registers);

}  // namespace nvrtc

class NvrtcCompiler final : public Compiler {
 public:
  /// For `arch`, "sm_90", "sm_90a", or "compute_90" for PTX, with line numbers for profilers if
  /// `line_info`; a launch runs `ranks` ranks. Does not load NVRTC where its identity is
  /// remembered. Throws CompileError when it is not available.
  explicit NvrtcCompiler(std::string_view arch, bool line_info = false, int ranks = 1);

  /// A kernel alone in its text gets a bound on its registers, `register_bound`, where it keeps
  /// that without spilling. Throws CompileError when NVRTC does not know the architecture.
  [[nodiscard]] CompileResult compile(std::string_view source,
                                      std::chrono::milliseconds limit = {}) const override;
  [[nodiscard]] std::vector<KernelResources> resources(std::string_view log) const override;
};

}  // namespace coconet::jit
