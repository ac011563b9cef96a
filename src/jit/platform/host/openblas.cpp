// Loading OpenBLAS with kernels that fit the processor, and calling it.
#include "jit/platform/host/openblas.h"

#include <cblas.h>

#include <cstdlib>

namespace coconet::jit::openblas {

namespace {

/// The binary interface that OpenBLAS's headers declare.
constexpr const char* library_name = "libopenblas.so.0";

#define COCONET_BLAS_FUNCTIONS(FUNCTION)              \
  FUNCTION(sgemm, cblas_sgemm)                        \
  FUNCTION(dgemm, cblas_dgemm)                        \
  FUNCTION(set_num_threads, openblas_set_num_threads) \
  FUNCTION(get_config, openblas_get_config)           \
  FUNCTION(get_corename, openblas_get_corename)

COCONET_FUNCTION_TABLE(BlasFunctions, COCONET_BLAS_FUNCTIONS);

struct OpenBlas : BlasFunctions, BlasFacts {};

/// Finds everything in `library` but the number of threads.
OpenBlas examine(const SharedLibrary& library) {
  OpenBlas blas;
  blas.problem = find_functions(blas, library, library_name);
  if (!blas.problem.empty()) return blas;
  blas.file = library.file();
  blas.kernels = blas.get_corename();
  blas.instructions = instructions_of(blas.kernels);
  blas.version = blas.get_config();
  blas.version.erase(blas.version.find_last_not_of(' ') + 1);
  return blas;
}

OpenBlas load_openblas() {
  SharedLibrary library({library_name}, {""});
  OpenBlas blas = examine(library);
  const bool is_below = blas.problem.empty() && blas.instructions < processor_instructions();
  if (is_below && std::getenv("OPENBLAS_CORETYPE") == nullptr) {
    // OpenBLAS chooses its kernels when it is loaded. Programs that this process starts must not
    // inherit the choice.
    setenv("OPENBLAS_CORETYPE", core_type_for(processor_instructions()).c_str(), 1);
    library.close();
    library = SharedLibrary({library_name}, {""});
    blas = examine(library);
    unsetenv("OPENBLAS_CORETYPE");
  }
  if (blas.problem.empty() && std::getenv("OPENBLAS_NUM_THREADS") == nullptr)
    blas.set_num_threads(1);
  return blas;
}

const OpenBlas& loaded() {
  static const OpenBlas blas = load_openblas();
  return blas;
}

/// No count that comes here is too large.
int as_int(std::int64_t count) {
  return static_cast<int>(count);
}

template <class T, class Gemm>
void call(Gemm* gemm, std::int64_t rows, std::int64_t columns, std::int64_t terms,
          const Matrix<T>& a, const Matrix<T>& b, T* out, std::int64_t out_row) {
  const auto order = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  gemm(CblasRowMajor, order(a.transposed), order(b.transposed), as_int(rows), as_int(columns),
       as_int(terms), 1, a.data, as_int(a.row), b.data, as_int(b.row), 0, out, as_int(out_row));
}

}  // namespace

const BlasFacts& facts() {
  return loaded();
}

// As OpenBLAS 0.3.21 spells them in driver/others/dynamic.c.
InstructionSet instructions_of(std::string_view core) {
  const auto is_one_of = [core](auto... names) { return ((core == names) || ...); };
  if (is_one_of("Haswell", "Zen")) return InstructionSet::avx2;
  if (is_one_of("Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator"))
    return InstructionSet::avx;
  if (is_one_of("Unknown", "Generic", "Katmai", "Coppermine", "Northwood", "Prescott", "Banias",
                "Core2", "Penryn", "Dunnington", "Nehalem", "Atom", "Athlon", "Opteron",
                "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"))
    return InstructionSet::baseline;
  return processor_instructions();
}

std::string core_type_for(InstructionSet set) {
  constexpr const char* names[] = {"", "Sandybridge", "Haswell", "SkylakeX"};
  return names[static_cast<std::size_t>(set)];
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<float>& a,
              const Matrix<float>& b, float* out, std::int64_t out_row) {
  call(loaded().sgemm, rows, columns, terms, a, b, out, out_row);
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<double>& a,
              const Matrix<double>& b, double* out, std::int64_t out_row) {
  call(loaded().dgemm, rows, columns, terms, a, b, out, out_row);
}

}  // namespace coconet::jit::openblas
