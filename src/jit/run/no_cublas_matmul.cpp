// Matmuls on GPUs in a build without cuBLASLt's header.
#include "coconet/error.h"
#include "jit/platform/facts.h"
#include "jit/run/gpu_matmul.h"

namespace coconet::jit {

std::unique_ptr<GpuMatmul> make_gpu_matmul(const Platform&, const MatmulShape& shape) {
  throw BackendError("matmul '" + shape.name + "' cannot run on GPUs: " + cublas_facts().problem +
                     "; use COCONET_BACKEND=host");
}

}  // namespace coconet::jit
