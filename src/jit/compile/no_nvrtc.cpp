// NVRTC for builds without CUDA's headers: never available.
#include "coconet/error.h"
#include "jit/compile/nvrtc.h"

namespace coconet::jit::nvrtc {

bool is_available() {
  return false;
}

std::string version() {
  return "coconet-jit was built without CUDA's nvrtc.h";
}

Result compile(std::string_view, std::string_view) {
  throw CompileError("NVRTC is not available: " + version() + ".");
}

}  // namespace coconet::jit::nvrtc
