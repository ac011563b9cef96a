// A matmul on a GPU: cublas_matmul.cpp, or no_cublas_matmul.cpp in a build without cuBLASLt's header.
#pragma once

#include <cstdint>
#include <memory>

#include "jit/platform/matmul_shape.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class GpuMatmul {
 public:
  virtual ~GpuMatmul() = default;
  /// Puts rows [begin, end) of the products, which lie one below the other, into `queue`; there is at least one element.
  virtual void enqueue(Queue& queue, const MatmulTensors& tensors, std::int64_t begin,
                       std::int64_t end) = 0;
};

/// Throws BackendError when cuBLASLt is not there.
[[nodiscard]] std::unique_ptr<GpuMatmul> make_gpu_matmul(const Platform& platform,
                                                         const MatmulShape& shape);

}  // namespace coconet::jit
