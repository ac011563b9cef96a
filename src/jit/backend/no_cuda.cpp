// The CUDA backend in a build without CUDA: there is no device to make one of.
#include "coconet/error.h"
#include "jit/backend/backend.h"

namespace coconet::jit {

const Backend& cuda_backend(const Device&, int) {
  throw InternalError("a build without CUDA has come by a GPU");
}

}  // namespace coconet::jit
