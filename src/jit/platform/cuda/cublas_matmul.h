// Matmuls on GPUs: cublas_matmul.cpp, or no_cublas.cpp in a build without cuBLASLt's header.
#pragma once

#include <memory>

#include "jit/platform/cuda/device.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// On `device`, with memory of `platform`. Throws BackendError when cuBLASLt is not there.
[[nodiscard]] std::unique_ptr<LibraryMatmul> make_cublas_matmul(const Platform& platform,
                                                                const Device& device,
                                                                MatmulShape shape);

}  // namespace coconet::jit
