// Loading and calling OpenBLAS.
#include "jit/platform/host/blas.h"

#include <cblas.h>
#include <dlfcn.h>

#include <cstdlib>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

/// The binary interface that OpenBLAS's headers declare.
constexpr const char* library_name = "libopenblas.so.0";

struct OpenBlas {
  decltype(&::cblas_sgemm) sgemm = nullptr;
  decltype(&::cblas_dgemm) dgemm = nullptr;
  BlasFacts facts;

  OpenBlas() {
    // Stays open until the process ends: it keeps threads.
    void* const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      facts.problem = dlerror();
      return;
    }
    decltype(&::openblas_set_num_threads) set_threads = nullptr;
    decltype(&::openblas_get_config) get_config = nullptr;
    find(library, "cblas_sgemm", sgemm);
    find(library, "cblas_dgemm", dgemm);
    find(library, "openblas_set_num_threads", set_threads);
    find(library, "openblas_get_config", get_config);
    if (!facts.problem.empty()) return;
    facts.version = get_config();
    facts.version.erase(facts.version.find_last_not_of(' ') + 1);
    if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) set_threads(1);
  }

 private:
  template <class Function>
  void find(void* library, const char* name, Function*& into) {
    into = reinterpret_cast<Function*>(dlsym(library, name));
    if (into == nullptr) facts.problem = std::string(library_name) + " has no function " + name;
  }
};

const OpenBlas& openblas() {
  static const OpenBlas loaded;
  return loaded;
}

template <class T, class Gemm>
void call(Gemm gemm, int rows, int columns, int terms, Matrix<const T> a, Matrix<const T> b,
          Matrix<T> out) {
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  gemm(CblasRowMajor, order(a.transposed), order(b.transposed), rows, columns, terms, 1, a.data,
       a.row, b.data, b.row, 0, out.data, out.row);
}

}  // namespace

BlasFacts blas_facts() {
  return openblas().facts;
}

void require_blas(const std::string& what) {
  const std::string& problem = openblas().facts.problem;
  if (problem.empty()) return;
  throw BackendError(what + " needs OpenBLAS, which does not load: " + problem +
                     "; install it (Debian: libopenblas0)");
}

void multiply(int rows, int columns, int terms, Matrix<const float> a, Matrix<const float> b,
              Matrix<float> out) {
  call(openblas().sgemm, rows, columns, terms, a, b, out);
}

void multiply(int rows, int columns, int terms, Matrix<const double> a, Matrix<const double> b,
              Matrix<double> out) {
  call(openblas().dgemm, rows, columns, terms, a, b, out);
}

}  // namespace coconet::jit
