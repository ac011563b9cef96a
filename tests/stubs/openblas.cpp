// An OpenBLAS that knows no processor: it has Prescott kernels unless OPENBLAS_CORETYPE names
// others while it is loaded. It says so, and multiplies nothing.
#include <cblas.h>

#include <cstdio>
#include <cstdlib>

#define STUB_BLAS extern "C" __attribute__((visibility("default")))

namespace {

struct Core {
  char name[32] = "Prescott";
  Core() {
    if (const char* const wanted = std::getenv("OPENBLAS_CORETYPE"))
      std::snprintf(name, sizeof name, "%s", wanted);
  }
};
Core core;
char config[] = "OpenBLAS stub ";

}  // namespace

STUB_BLAS char* openblas_get_corename() {
  return core.name;
}
STUB_BLAS char* openblas_get_config() {
  return config;
}
STUB_BLAS void openblas_set_num_threads(int) {}

STUB_BLAS void cblas_sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint,
                           float, const float*, blasint, const float*, blasint, float, float*,
                           blasint) {
  std::abort();
}
STUB_BLAS void cblas_dgemm(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint,
                           double, const double*, blasint, const double*, blasint, double, double*,
                           blasint) {
  std::abort();
}
