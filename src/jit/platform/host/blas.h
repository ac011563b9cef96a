// OpenBLAS, which multiplies matrices on the host: loaded when the first program needs it, so that
// no other pays for its memory and threads.
#pragma once

#include <string>

namespace coconet::jit {

struct BlasFacts {
  std::string version;  ///< "OpenBLAS 0.3.21 ..."; empty when there is a problem
  std::string problem;  ///< why it does not load
};
/// Loads OpenBLAS at the first call, and sets it to one thread, as every core has a rank of its
/// own, unless OPENBLAS_NUM_THREADS says otherwise.
[[nodiscard]] BlasFacts blas_facts();

/// Throws BackendError, which begins with `what`, when there is no OpenBLAS.
void require_blas(const std::string& what);

/// A matrix in row-major order, as it is stored; `row` elements lie between the beginnings of its
/// rows.
template <class T>
struct Matrix {
  T* data = nullptr;
  int row = 1;
  bool transposed = false;
};

/// out = a b, of `rows` x `terms` and `terms` x `columns` when what is transposed has been. None
/// may be 0.
void multiply(int rows, int columns, int terms, Matrix<const float> a, Matrix<const float> b,
              Matrix<float> out);
void multiply(int rows, int columns, int terms, Matrix<const double> a, Matrix<const double> b,
              Matrix<double> out);

}  // namespace coconet::jit
