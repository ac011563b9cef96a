// cuBLASLt in a build that found no cublasLt.h.
#include "coconet/error.h"
#include "jit/platform/cuda/facts.h"
#include "jit/platform/cuda/libraries.h"

namespace coconet::jit {

LibraryFacts cublas_facts() {
  return {{}, "this library was built without cublasLt.h"};
}

std::unique_ptr<LibraryMatmul> make_cublas_matmul(const Platform&, const Device&,
                                                  MatmulShape shape) {
  throw BackendError("matmul '" + shape.name + "' cannot run on GPUs: " + cublas_facts().problem +
                     "; use COCONET_BACKEND=host");
}

}  // namespace coconet::jit
