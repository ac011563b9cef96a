// The order in which executables come to a GPU: `Platform::make_launch_order`. For .cpp files of
// builds with CUDA only.
#pragma once

#include <memory>

#include "jit/platform/cuda/device.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

[[nodiscard]] std::unique_ptr<LaunchOrder> make_cuda_launch_order(const Device& device);

}  // namespace coconet::jit
