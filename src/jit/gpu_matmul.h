// A matmul on a GPU: cublas_matmul.cpp, or no_cublas_matmul.cpp in a build without cuBLASLt's header.
#pragma once

#include <memory>

#include "jit/backend/backend.h"
#include "jit/products.h"
#include "jit/tensors.h"

namespace coconet::jit {

class GpuMatmul {
 public:
  virtual ~GpuMatmul() = default;
  /// Puts all of the products into `queue`; there is at least one element.
  virtual void enqueue(Queue& queue, const Tensors& tensors) = 0;
};

/// Throws BackendError when cuBLASLt is not there.
[[nodiscard]] std::unique_ptr<GpuMatmul> make_gpu_matmul(const Backend& backend,
                                                         const Products& products);

}  // namespace coconet::jit
