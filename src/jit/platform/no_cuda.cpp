// What builds without CUDA have in place of the folder cuda.
#include "coconet/error.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

DriverFacts driver_facts() {
  return {{{}, "this library was built without CUDA (no cuda.h)"}, 0, {}, {}};
}

const Platform& cuda_platform_of(Comm&) {
  throw BackendError(
      "this library was built without CUDA; build it where cuda.h and nvrtc.h are, with "
      "-DCOCONET_CUDA=ON, or set COCONET_BACKEND=host");
}

LibraryFacts nccl_facts() {
  return {{}, "this library was built without nccl.h"};
}

LibraryFacts cublas_facts() {
  return {{}, "this library was built without cublasLt.h"};
}

bool nvrtc::is_available() {
  return false;
}

std::string nvrtc::version() {
  return "coconet-jit was built without CUDA's nvrtc.h";
}

std::string nvrtc::file() {
  return {};
}

std::vector<std::string> nvrtc::architectures() {
  return {};
}

nvrtc::Target nvrtc::target_for(std::string_view arch, const std::vector<std::string>&) {
  return {.arch = std::string(arch), .why = {}};
}

int nvrtc::register_bound(int) {
  return 0;
}

NvrtcCompiler::NvrtcCompiler(std::string_view, bool, int) {
  throw CompileError("NVRTC is not available: " + nvrtc::version() + ".");
}

// No object exists to call these.
CompileResult NvrtcCompiler::compile(std::string_view, std::chrono::milliseconds) const {
  return {};
}
std::vector<KernelResources> NvrtcCompiler::resources(std::string_view) const {
  return {};
}

}  // namespace coconet::jit
