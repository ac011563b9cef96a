// NVRTC, loaded at run time: compiles kernel text to a cubin for a real architecture; needs no GPU and no driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/compile/compiler.h"

namespace coconet::jit {

namespace nvrtc {

/// Whether the library was built with NVRTC support and libnvrtc can be loaded.
[[nodiscard]] bool is_available();
/// "13.0", or why it is not available.
[[nodiscard]] std::string version();
/// The architectures that it compiles for, "sm_75", "sm_80", ...; none when it is not available.
[[nodiscard]] std::vector<std::string> architectures();

}  // namespace nvrtc

class NvrtcCompiler final : public Compiler {
 public:
  /// For `arch`, "sm_90" or "sm_90a", with line numbers for profilers if `line_info`; a launch runs `ranks` ranks. Throws
  /// CompileError when NVRTC is not available or does not know `arch`.
  explicit NvrtcCompiler(std::string_view arch, bool line_info = false, int ranks = 1);

  [[nodiscard]] std::string_view target() const override { return "cuda"; }
  [[nodiscard]] std::string_view arch() const override { return arch_; }
  [[nodiscard]] CacheKey key(std::string_view source, std::string_view entry) const override;
  [[nodiscard]] CompileResult compile(std::string_view source) const override;

 private:
  std::string arch_;
  std::vector<std::string> options_;
};

}  // namespace coconet::jit
