// cuBLASLt in a build that found no cublasLt.h.
#include "jit/platform/facts.h"

namespace coconet::jit {

CublasFacts cublas_facts() {
  return {{}, "this library was built without cublasLt.h"};
}

}  // namespace coconet::jit
