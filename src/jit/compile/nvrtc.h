// NVRTC, loaded at run time: compiles kernel text to a cubin for a real architecture; needs no GPU and no driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coconet::jit::nvrtc {

/// Resources of one kernel as ptxas reports them.
struct KernelResources {
  std::string entry;
  int registers = 0;
  int stack_bytes = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
};

struct Result {
  bool ok = false;
  std::string cubin;
  std::string log;
  std::vector<KernelResources> kernels;
};

/// Whether the library was built with NVRTC support and libnvrtc can be loaded.
[[nodiscard]] bool is_available();
/// "13.0", or why it is not available.
[[nodiscard]] std::string version();
/// Compiles `source` (prelude included) for `arch`, "sm_90". Throws CompileError when NVRTC is not available.
[[nodiscard]] Result compile(std::string_view source, std::string_view arch);

}  // namespace coconet::jit::nvrtc
