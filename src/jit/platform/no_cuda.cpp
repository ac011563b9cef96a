// What builds without CUDA have in place of the folder cuda: there is no GPU, and who asks for one is told why.
#include "coconet/error.h"
#include "jit/platform/device.h"
#include "jit/platform/device_group.h"
#include "jit/platform/facts.h"
#include "jit/platform/nvrtc.h"
#include "jit/platform/peer_memory.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

namespace {

constexpr const char* without_cuda =
    "this library was built without CUDA; build it where cuda.h and nvrtc.h are, with "
    "-DCOCONET_CUDA=ON, or set COCONET_BACKEND=host";

}  // namespace

const Device& Device::at(int) {
  throw BackendError(without_cuda);
}
int Device::count() {
  throw BackendError(without_cuda);
}
int Device::current() {
  return -1;
}
bool Device::multicasts() const {
  throw BackendError(without_cuda);
}

OnDevice::OnDevice(const Device&) noexcept {}
OnDevice::~OnDevice() = default;

DriverFacts driver_facts() {
  return {{}, 0, "this library was built without CUDA (no cuda.h)", {}, {}};
}

const Device& device_of(Comm&) {
  throw BackendError(without_cuda);
}
int ranks_on_device(Comm&) {
  throw BackendError(without_cuda);
}

NcclFacts nccl_facts() {
  return {{}, "this library was built without nccl.h"};
}

CublasFacts cublas_facts() {
  return {{}, "this library was built without cublasLt.h"};
}

const Platform& cuda_platform(const Device&, int) {
  throw InternalError("a build without CUDA has come by a GPU");
}

std::shared_ptr<PeerMemory> allocate_on_devices(Comm&, std::size_t, bool) {
  throw InternalError("a build without CUDA was asked for memory of a GPU");
}

void require_nvlink(Comm&, std::span<const int>, std::string_view) {
  throw InternalError("a build without CUDA was asked what connects GPUs");
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

std::unique_ptr<Collectives> make_nccl_group(Comm&, std::vector<int>, const std::string& step) {
  throw CommError("library collective '" + step + "' needs NCCL, and there is none to use: " +
                  nccl_facts().problem + "; build where nccl.h is, or fuse the collective");
}

}  // namespace coconet::jit
