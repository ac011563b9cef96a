// Loops over memory that are written for each set of vector instructions: products of a matrix and
// a vector, which libraries are slow at, and 16-bit floats to f32 and back.
#pragma once

#include <cstdint>

#include "coconet/dtype.h"

namespace coconet::jit::loops {

// Rows of `matrix` are `stride` elements apart. An element's bits do not depend on the others that
// are computed with it.

/// out[i] = the sum over k of matrix[i][k] vector[k], for `count` rows of `terms` elements: float,
/// double or BFloat16.
template <class T>
void multiply_rows(const T* matrix, std::int64_t stride, const T* vector, std::int64_t count,
                   std::int64_t terms, T* out);
/// out[j] = the sum over k of vector[k] matrix[k][j], for `count` columns of `terms` elements.
template <class T>
void multiply_columns(const T* matrix, std::int64_t stride, const T* vector, std::int64_t count,
                      std::int64_t terms, T* out);

void widen(const BFloat16* from, std::int64_t count, float* to);
void widen(const Half* from, std::int64_t count, float* to);
/// Rounds to nearest, ties to even.
void narrow(const float* from, std::int64_t count, BFloat16* to);
void narrow(const float* from, std::int64_t count, Half* to);

/// to[i] += from[i]
void add(const float* from, std::int64_t count, float* to);

}  // namespace coconet::jit::loops
