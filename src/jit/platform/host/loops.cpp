// The loops are templates of the vectors' bytes, inlined into a function for each set of
// instructions; the widest that the processor has is chosen at the first call.
#include "jit/platform/host/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <utility>

#include "jit/platform/host/instruction_set.h"

#define COCONET_INLINE [[gnu::always_inline]] inline

namespace coconet::jit::loops {

namespace {

template <class T, int bytes>
struct Vectors {
  static constexpr int lanes = bytes / static_cast<int>(sizeof(Sum<T>));
  // NOLINTBEGIN(modernize-use-using): g++ drops the attribute of an alias that depends on `bytes`
  typedef Sum<T> Value __attribute__((vector_size(bytes)));
  typedef std::uint16_t Halves __attribute__((vector_size(bytes / 2)));
  typedef std::uint32_t Words __attribute__((vector_size(bytes)));
  // NOLINTEND(modernize-use-using)
};

template <class T, int bytes>
using Vector = typename Vectors<T, bytes>::Value;

// Passed by reference: how vectors are passed by value depends on the instructions.
template <int bytes, class T>
COCONET_INLINE void load(const T* from, Vector<T, bytes>& to) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    using Words = typename Vectors<T, bytes>::Words;
    typename Vectors<T, bytes>::Halves bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    const Words wide = __builtin_convertvector(bits, Words) << 16;
    __builtin_memcpy(&to, &wide, sizeof to);
  } else {
    __builtin_memcpy(&to, from, sizeof to);
  }
}

/// The same of fewer elements, and zeros.
template <int bytes, class T>
COCONET_INLINE void load_some(const T* from, std::int64_t count, Vector<T, bytes>& to) {
  T padded[Vectors<T, bytes>::lanes] = {};
  __builtin_memcpy(padded, from, count * sizeof(T));
  load<bytes>(padded, to);
}

COCONET_INLINE float widened(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}
COCONET_INLINE float widened(float value) {
  return value;
}
COCONET_INLINE double widened(double value) {
  return value;
}

COCONET_INLINE void round_into(float value, BFloat16& to) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  to.bits = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}
template <class T>
COCONET_INLINE void round_into(T value, T& to) {
  to = value;
}

/// The sum of the lanes.
template <int bytes, class T>
COCONET_INLINE Sum<T> lanes_of(const Vector<T, bytes>& vector) {
  if constexpr (bytes == sizeof(Sum<T>) * 2) {
    return vector[0] + vector[1];
  } else {
    Vector<T, bytes / 2> low, high;
    __builtin_memcpy(&low, &vector, sizeof low);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&vector) + sizeof low, sizeof high);
    low += high;
    return lanes_of<bytes / 2, T>(low);
  }
}

/// Of rows R, which share the loads of the vector and whose additions need not wait for each other.
/// They are a pack, as gcc keeps an array in memory that a loop goes through.
template <int bytes, class T, int... R>
COCONET_INLINE void some_rows(const T* matrix, std::int64_t stride, const Sum<T>* vector,
                              std::int64_t terms, T* out, std::integer_sequence<int, R...>) {
  constexpr int lanes = Vectors<T, bytes>::lanes;
  Vector<T, bytes> sum[sizeof...(R)] = {};
  Vector<T, bytes> x, y;
  std::int64_t k = 0;
  for (; k + lanes <= terms; k += lanes) {
    load<bytes>(vector + k, y);
    ((load<bytes>(matrix + R * stride + k, x), sum[R] += x * y), ...);
  }
  // As vectors, too: gcc may or may not multiply and add single elements in one step.
  if (k < terms) {
    load_some<bytes>(vector + k, terms - k, y);
    ((load_some<bytes>(matrix + R * stride + k, terms - k, x), sum[R] += x * y), ...);
  }
  (round_into(lanes_of<bytes, T>(sum[R]), out[R]), ...);
}

template <int bytes, class T>
COCONET_INLINE void rows_of(const T* matrix, std::int64_t stride, const Sum<T>* vector,
                            std::int64_t count, std::int64_t terms, T* out) {
  constexpr int several = 8;
  std::int64_t i = 0;
  for (; i + several <= count; i += several)
    some_rows<bytes>(matrix + i * stride, stride, vector, terms, out + i,
                     std::make_integer_sequence<int, several>{});
  for (; i < count; ++i)
    some_rows<bytes>(matrix + i * stride, stride, vector, terms, out + i,
                     std::integer_sequence<int, 0>{});
}

/// Adds the terms of `depth` rows to the sums of `count` columns.
template <int bytes, int depth, class T>
COCONET_INLINE void add_terms(const T* matrix, std::int64_t stride, const Sum<T>* vector,
                              std::int64_t count, Sum<T>* sums) {
  constexpr int lanes = Vectors<T, bytes>::lanes;
  Vector<T, bytes> sum, x;
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) {
    __builtin_memcpy(&sum, sums + j, sizeof sum);
    for (int k = 0; k < depth; ++k) {
      load<bytes>(matrix + k * stride + j, x);
      sum += x * vector[k];
    }
    __builtin_memcpy(sums + j, &sum, sizeof sum);
  }
  for (; j < count; ++j) {
    for (int k = 0; k < depth; ++k) sums[j] += widened(matrix[k * stride + j]) * vector[k];
  }
}

template <int bytes, class T>
COCONET_INLINE void columns_of(const T* matrix, std::int64_t stride, const Sum<T>* vector,
                               std::int64_t count, std::int64_t terms, T* out) {
  constexpr std::int64_t width = 1024;  // whose sums stay in the first cache
  constexpr int depth = 8;              // rows that are streamed at once
  Sum<T> sums[width];
  for (std::int64_t first = 0; first < count; first += width) {
    const std::int64_t here = count - first < width ? count - first : width;
    for (std::int64_t j = 0; j < here; ++j) sums[j] = 0;
    const T* const columns = matrix + first;
    std::int64_t k = 0;
    for (; k + depth <= terms; k += depth)
      add_terms<bytes, depth>(columns + k * stride, stride, vector + k, here, sums);
    for (; k < terms; ++k)
      add_terms<bytes, 1>(columns + k * stride, stride, vector + k, here, sums);
    for (std::int64_t j = 0; j < here; ++j) round_into(sums[j], out[first + j]);
  }
}

/// The functions of one set of instructions.
struct Table {
  template <class T>
  using Multiply = void (*)(const T*, std::int64_t, const Sum<T>*, std::int64_t, std::int64_t, T*);
  Multiply<float> rows_f32, columns_f32;
  Multiply<double> rows_f64, columns_f64;
  Multiply<BFloat16> rows_bf16, columns_bf16;
  void (*widen)(const BFloat16*, std::int64_t, float*);
  void (*narrow)(const float*, std::int64_t, BFloat16*);
  void (*add)(const float*, std::int64_t, float*);
};

// TARGET(BYTES): a table of functions with the attributes that follow.
#define COCONET_LOOPS(Name, bytes, ...)                                                         \
  struct Name {                                                                                 \
    template <class T>                                                                          \
    __VA_ARGS__ static void rows(const T* matrix, std::int64_t stride, const Sum<T>* vector,    \
                                 std::int64_t count, std::int64_t terms, T* out) {              \
      rows_of<bytes>(matrix, stride, vector, count, terms, out);                                \
    }                                                                                           \
    template <class T>                                                                          \
    __VA_ARGS__ static void columns(const T* matrix, std::int64_t stride, const Sum<T>* vector, \
                                    std::int64_t count, std::int64_t terms, T* out) {           \
      columns_of<bytes>(matrix, stride, vector, count, terms, out);                             \
    }                                                                                           \
    __VA_ARGS__ static void widen(const BFloat16* from, std::int64_t count, float* to) {        \
      for (std::int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);                        \
    }                                                                                           \
    __VA_ARGS__ static void narrow(const float* from, std::int64_t count, BFloat16* to) {       \
      for (std::int64_t i = 0; i < count; ++i) round_into(from[i], to[i]);                      \
    }                                                                                           \
    __VA_ARGS__ static void add(const float* from, std::int64_t count, float* to) {             \
      for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];                                \
    }                                                                                           \
    static constexpr Table table = {rows<float>,     columns<float>, rows<double>,              \
                                    columns<double>, rows<BFloat16>, columns<BFloat16>,         \
                                    widen,           narrow,         add};                      \
  };

COCONET_LOOPS(Baseline, 16, )
#if defined(__x86_64__)
COCONET_LOOPS(Avx2, 32, [[gnu::target("avx2,fma,f16c")]])
COCONET_LOOPS(Avx512, 64, [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]])

constexpr int halves = 8;  // that are converted at once

// Every processor with AVX2 converts f16.
[[gnu::target("avx2,f16c")]] std::int64_t widen_halves(const Half* from, std::int64_t count,
                                                       float* to) {
  std::int64_t i = 0;
  for (; i + halves <= count; i += halves) {
    const auto* const bits = reinterpret_cast<const __m128i*>(from + i);
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(bits)));
  }
  return i;
}
[[gnu::target("avx2,f16c")]] std::int64_t narrow_halves(const float* from, std::int64_t count,
                                                        Half* to) {
  std::int64_t i = 0;
  for (; i + halves <= count; i += halves) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
#endif

const Table& table() {
#if defined(__x86_64__)
  static const InstructionSet set = processor_instructions();
  if (set == InstructionSet::avx512) return Avx512::table;
  if (set == InstructionSet::avx2) return Avx2::table;
#endif
  return Baseline::table;
}

}  // namespace

void multiply_rows(const float* matrix, std::int64_t stride, const float* vector,
                   std::int64_t count, std::int64_t terms, float* out) {
  table().rows_f32(matrix, stride, vector, count, terms, out);
}
void multiply_rows(const double* matrix, std::int64_t stride, const double* vector,
                   std::int64_t count, std::int64_t terms, double* out) {
  table().rows_f64(matrix, stride, vector, count, terms, out);
}
void multiply_rows(const BFloat16* matrix, std::int64_t stride, const float* vector,
                   std::int64_t count, std::int64_t terms, BFloat16* out) {
  table().rows_bf16(matrix, stride, vector, count, terms, out);
}
void multiply_columns(const float* matrix, std::int64_t stride, const float* vector,
                      std::int64_t count, std::int64_t terms, float* out) {
  table().columns_f32(matrix, stride, vector, count, terms, out);
}
void multiply_columns(const double* matrix, std::int64_t stride, const double* vector,
                      std::int64_t count, std::int64_t terms, double* out) {
  table().columns_f64(matrix, stride, vector, count, terms, out);
}
void multiply_columns(const BFloat16* matrix, std::int64_t stride, const float* vector,
                      std::int64_t count, std::int64_t terms, BFloat16* out) {
  table().columns_bf16(matrix, stride, vector, count, terms, out);
}

void widen(const BFloat16* from, std::int64_t count, float* to) {
  table().widen(from, count, to);
}
void narrow(const float* from, std::int64_t count, BFloat16* to) {
  table().narrow(from, count, to);
}
void add(const float* from, std::int64_t count, float* to) {
  table().add(from, count, to);
}

void widen(const Half* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (processor_instructions() >= InstructionSet::avx2) i = widen_halves(from, count, to);
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, std::int64_t count, Half* to) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (processor_instructions() >= InstructionSet::avx2) i = narrow_halves(from, count, to);
#endif
  for (; i < count; ++i) to[i] = Half(static_cast<double>(from[i]));
}

}  // namespace coconet::jit::loops
