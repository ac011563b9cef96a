// oneDNN in a build that found none of its headers.
#include "coconet/error.h"
#include "jit/platform/host/onednn.h"

namespace coconet::jit::onednn {

const BlasFacts& facts() {
  static const BlasFacts none{{.version = {}, .problem = "this library was built without dnnl.h"}};
  return none;
}

bool multiplies(DType) {
  return false;
}

void multiply(std::int64_t, std::int64_t, std::int64_t, const Matrix<float>&, const Matrix<float>&,
              float*) {
  throw InternalError("a product by oneDNN: " + facts().problem);
}

std::unique_ptr<Product> make_product(const MatmulShape& shape, bool) {
  throw InternalError("matmul '" + shape.name + "' by oneDNN: " + facts().problem);
}

}  // namespace coconet::jit::onednn
