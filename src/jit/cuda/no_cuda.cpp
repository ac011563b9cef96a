// GPUs in a build without CUDA's headers: there is none.
#include "coconet/error.h"
#include "jit/cuda/device.h"
#include "jit/cuda/facts.h"

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

}  // namespace coconet::jit
