// OpenBLAS, loaded when a product first needs it, so that no other program pays for its memory and
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jit/platform/host/blas.h"

namespace coconet::jit::openblas {

/// Loads it at the first call, and sets it to one thread, as every core has a rank of its own,
/// unless OPENBLAS_NUM_THREADS says otherwise. Where it has not heard of the processor and would
/// run kernels below what that has, it is loaded again with a core type that fits, unless
/// OPENBLAS_CORETYPE names one.
[[nodiscard]] const BlasFacts& facts();

/// The instructions of the kernels that OpenBLAS calls `core`. Names that this does not know are
/// taken for newer ones, which have all that the processor has.
[[nodiscard]] InstructionSet instructions_of(std::string_view core);

/// What OPENBLAS_CORETYPE must be for kernels of `set`; empty for the baseline.
[[nodiscard]] std::string core_type_for(InstructionSet set);

/// out = a b, of `rows` x `terms` and `terms` x `columns` after transposition; no count is 0 or
/// larger than an int. `facts` must have no problem.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<float>& a,
              const Matrix<float>& b, float* out, std::int64_t out_row);
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<double>& a,
              const Matrix<double>& b, double* out, std::int64_t out_row);

}  // namespace coconet::jit::openblas
