// Lines of 16 elements of 16-bit floats and their f32 values: with the processor's instructions
// where it has them.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "coconet/dtype.h"
#include "ir/half.h"

namespace bench {

inline constexpr std::size_t line = 16;

template <class Element>
[[gnu::always_inline]] inline void widen_line(const Element* from, float* to) {
#if defined(__F16C__)
  if constexpr (coconet::dtype_of<Element> == coconet::f16) {
    for (std::size_t l = 0; l < line; l += 8) {
      const auto* const bits = reinterpret_cast<const __m128i*>(from + l);
      _mm256_storeu_ps(to + l, _mm256_cvtph_ps(_mm_loadu_si128(bits)));
    }
    return;
  }
#endif
  for (std::size_t l = 0; l < line; ++l) {
    to[l] = coconet::ir::widened(from[l]);
  }
}

/// Rounds to nearest, ties to even.
template <class Element>
[[gnu::always_inline]] inline void narrow_line(const float* from, Element* to) {
#if defined(__F16C__)
  if constexpr (coconet::dtype_of<Element> == coconet::f16) {
    for (std::size_t l = 0; l < line; l += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + l),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + l), _MM_FROUND_TO_NEAREST_INT));
    }
    return;
  }
#endif
  for (std::size_t l = 0; l < line; ++l) {
    if constexpr (coconet::dtype_of<Element> == coconet::bf16) {
      const auto bits = std::bit_cast<std::uint32_t>(from[l]);  // no NaNs in a benchmark
      to[l].bits = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    } else {
      to[l] = coconet::ir::narrowed<Element>(from[l]);
    }
  }
}

}  // namespace bench
