// What builds without CUDA have in place of the folder cuda: who asks for a GPU is told why there
// is none.
#include "coconet/error.h"
#include "jit/platform/facts.h"
#include "jit/platform/nvrtc.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

namespace {

constexpr const char* without_cuda =
    "this library was built without CUDA; build it where cuda.h and nvrtc.h are, with "
    "-DCOCONET_CUDA=ON, or set COCONET_BACKEND=host";

}  // namespace

DriverFacts driver_facts() {
  return {{}, 0, "this library was built without CUDA (no cuda.h)", {}, {}};
}

const Platform& cuda_platform_of(Comm&) {
  throw BackendError(without_cuda);
}

NcclFacts nccl_facts() {
  return {{}, "this library was built without nccl.h"};
}

CublasFacts cublas_facts() {
  return {{}, "this library was built without cublasLt.h"};
}

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
