// Stores of one cache line, past the caches or not.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {

/// Writes one cache line, past the caches if `streaming`: where it is not read here before or
/// after, fetching it before overwriting it is waste once the arrays leave the caches.
template <bool streaming>
[[gnu::always_inline]] inline void store_line(float* to, const float* line) {
#if defined(__AVX512F__)
  if constexpr (streaming) return _mm512_stream_ps(to, _mm512_load_ps(line));
#elif defined(__AVX__)
  if constexpr (streaming) {
    for (int i = 0; i < 16; i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(line + i));
    return;
  }
#elif defined(__x86_64__)
  if constexpr (streaming) {
    for (int i = 0; i < 16; i += 4) _mm_stream_ps(to + i, _mm_load_ps(line + i));
    return;
  }
#endif
  for (int i = 0; i < 16; ++i) to[i] = line[i];
}

/// To be called between streaming stores and the store of a flag, which does not order them.
inline void end_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace bench
