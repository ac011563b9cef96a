// What the reductions of collectives compute, for every dtype.
//
// Integers wrap. f16 and bf16 are widened to f32. bool: sum and max are "or", prod and min are
// "and". max and min are NaN when an operand is, as the pointwise ops of programs are.
#pragma once

#include <cstddef>
#include <span>

#include "coconet/dtype.h"
#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet::jit {

/// inout[i] = in[i] (+) inout[i] for `count` elements, rounded to `dtype`. No mean: see `divide`.
COCONET_API void combine(DType dtype, Reduction reduction, const void* in, void* inout,
                         std::size_t count);

/// data[i] = data[i] / by for `count` floats, rounded to `dtype`: makes a sum over `by` ranks their
/// mean.
COCONET_API void divide(DType dtype, void* data, std::size_t count, int by);

/// Where results go.
struct Destination {
  void* data;
  bool past_caches = false;  ///< as far as the machine can: who reads them next has other caches
};

/// Each out[i] = parts[0][i] (+) parts[1][i] (+) ..., in this order, for `count` elements of each
/// of `outs`; a mean, of floats only, is then divided by the number of parts. f16 and bf16 are
/// rounded once, at the end.
COCONET_API void combine_in_order(DType dtype, Reduction reduction,
                                  std::span<const void* const> parts, std::size_t count,
                                  std::span<const Destination> outs);

/// Copies `bytes` to `to`, which does not overlap `from`.
COCONET_API void copy_to(const Destination& to, const void* from, std::size_t bytes);

}  // namespace coconet::jit
