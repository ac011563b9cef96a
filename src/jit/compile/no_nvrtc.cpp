// NVRTC for builds without CUDA's headers: never available.
#include "coconet/error.h"
#include "jit/compile/nvrtc.h"

namespace coconet::jit {

bool nvrtc::is_available() {
  return false;
}

std::string nvrtc::version() {
  return "coconet-jit was built without CUDA's nvrtc.h";
}

std::vector<std::string> nvrtc::architectures() {
  return {};
}

const std::string& nvrtc::identity() {
  throw CompileError("NVRTC is not available: " + version() + ".");
}

std::vector<KernelResources> nvrtc::resources(std::string_view) {
  return {};
}

NvrtcCompiler::NvrtcCompiler(std::string_view, bool, int) {
  throw CompileError("NVRTC is not available: " + nvrtc::version() + ".");
}

// No object exists to call it.
CompileResult NvrtcCompiler::compile(std::string_view) const {
  return {};
}

}  // namespace coconet::jit
