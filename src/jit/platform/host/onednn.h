// oneDNN, loaded when a product first needs it. It multiplies f32 on every processor and 16-bit
// floats where it has kernels of them that are quicker than widening to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "jit/platform/host/blas.h"
#include "jit/platform/matmul_shape.h"
#include "jit/platform/platform.h"

namespace coconet::jit::onednn {

/// Loads it at the first call. It works in the thread that calls it: a rank's cores share out the
/// rows of a product. The application's own number of threads stays as it is.
[[nodiscard]] const BlasFacts& facts();

/// Whether it has kernels of its own for products of `dtype`, which make_product can make.
[[nodiscard]] bool multiplies(DType dtype);

/// out = a b, of `rows` x `terms` and `terms` x `columns` after transposition; no count is 0.
/// `facts` must have no problem.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<float>& a,
              const Matrix<float>& b, float* out, std::int64_t out_row);

/// Products of rows of left sides with right sides of one shape. What oneDNN generates for them is
/// kept, and a right side that is multiplied with many rows is rearranged once in a run.
class Product : public Interface {
 public:
  /// The right sides may have changed.
  virtual void begin_run() = 0;
  /// out = a b, of `rows` rows of the left side, which begin at `a`.
  virtual void multiply(std::int64_t rows, const std::byte* a, const std::byte* b,
                        std::byte* out) = 0;
};

/// With `rearranged` the right side is brought into the order that oneDNN likes best, which pays
/// where more rows than a tile's are multiplied with it. `multiplies(shape.dtype)` must be true.
[[nodiscard]] std::unique_ptr<Product> make_product(const MatmulShape& shape, bool rearranged);

}  // namespace coconet::jit::onednn
