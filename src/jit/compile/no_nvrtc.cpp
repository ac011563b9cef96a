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

NvrtcCompiler::NvrtcCompiler(std::string_view, bool, int) {
  throw CompileError("NVRTC is not available: " + nvrtc::version() + ".");
}

// No object exists to call these.
CacheKey NvrtcCompiler::key(std::string_view, std::string_view) const {
  return {};
}

CompileResult NvrtcCompiler::compile(std::string_view) const {
  return {};
}

}  // namespace coconet::jit
