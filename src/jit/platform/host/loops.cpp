// The loops are templates of the vectors' bytes, inlined into a function for each set of
// instructions; the widest that the processor has is chosen at the first call.
#include "jit/platform/host/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>
#include <utility>

#include "jit/config/instruction_set.h"

#define COCONET_INLINE [[gnu::always_inline]] inline

namespace coconet::jit::loops {

namespace {

/// What sums of products of T are held in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T, int bytes>
struct Vectors {
  // NOLINTBEGIN(modernize-use-using): g++ drops the attribute of an alias that depends on `bytes`
  typedef Sum<T> Value __attribute__((vector_size(bytes)));
  typedef std::uint32_t Words __attribute__((vector_size(bytes)));
  // NOLINTEND(modernize-use-using)
};

template <class T, int bytes>
using Vector = typename Vectors<T, bytes>::Value;

template <class T>
constexpr bool in_pairs = std::is_same_v<T, BFloat16>;

/// Elements that lie one after the other, `bytes` of them, as vectors of what they are summed in.
/// 16-bit floats are pairs in words of 32 bits, which become f32 by a shift and a mask: that takes
/// fewer instructions than to widen them in their order.
template <class T, int bytes>
struct Piece {
  static constexpr int elements = bytes / static_cast<int>(sizeof(T));
  Vector<T, bytes> values;  ///< all, or those of even places
  Vector<T, bytes> odd;     ///< unused but for pairs
};

// Passed by reference: how vectors are passed by value depends on the instructions.
template <int bytes, class T>
COCONET_INLINE void load(const T* from, Piece<T, bytes>& to) {
  if constexpr (in_pairs<T>) {
    typename Vectors<T, bytes>::Words pairs, even, odd;
    __builtin_memcpy(&pairs, from, sizeof pairs);
#if defined(__x86_64__) && !defined(__clang__)
    asm("" : "+v"(pairs));  // or gcc reads them from memory twice, which takes longer
#endif
    even = pairs << 16;
    odd = pairs & 0xffff0000U;
    __builtin_memcpy(&to.values, &even, sizeof even);
    __builtin_memcpy(&to.odd, &odd, sizeof odd);
  } else {
    __builtin_memcpy(&to.values, from, sizeof to.values);
  }
}

/// Loads `count` elements, fewer than the piece has, and zeros for the rest.
template <int bytes, class T>
COCONET_INLINE void load_some(const T* from, std::int64_t count, Piece<T, bytes>& to) {
  T padded[Piece<T, bytes>::elements] = {};
  __builtin_memcpy(padded, from, count * sizeof(T));
  load<bytes>(padded, to);
}

template <int bytes, class T>
COCONET_INLINE void add_products(const Piece<T, bytes>& x, const Piece<T, bytes>& y,
                                 Vector<T, bytes>& sum) {
  sum += x.values * y.values;
  if constexpr (in_pairs<T>) sum += x.odd * y.odd;
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
COCONET_INLINE void some_rows(const T* matrix, std::int64_t stride, const T* vector,
                              std::int64_t terms, T* out, std::integer_sequence<int, R...>) {
  constexpr int elements = Piece<T, bytes>::elements;
  Vector<T, bytes> sum[sizeof...(R)] = {};
  Piece<T, bytes> x, y;
  std::int64_t k = 0;
  for (; k + elements <= terms; k += elements) {
    load<bytes>(vector + k, y);
    ((load<bytes>(matrix + R * stride + k, x), add_products<bytes, T>(x, y, sum[R])), ...);
  }
  // As vectors, too: gcc may or may not multiply and add single elements in one step.
  if (k < terms) {
    load_some<bytes>(vector + k, terms - k, y);
    ((load_some<bytes>(matrix + R * stride + k, terms - k, x),
      add_products<bytes, T>(x, y, sum[R])),
     ...);
  }
  (round_into(lanes_of<bytes, T>(sum[R]), out[R]), ...);
}

template <int bytes, class T>
COCONET_INLINE void rows_of(const T* matrix, std::int64_t stride, const T* vector,
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

/// Adds the terms of `depth` rows to the sums of a Piece of columns, or of its first `count`. The
/// sums are in the Piece's order.
template <int bytes, int depth, class T>
COCONET_INLINE void add_terms(const T* matrix, std::int64_t stride, const T* vector,
                              std::int64_t count, Sum<T>* sums) {
  constexpr int elements = Piece<T, bytes>::elements;
  Vector<T, bytes> sum, odd;
  Piece<T, bytes> x;
  __builtin_memcpy(&sum, sums, sizeof sum);
  if constexpr (in_pairs<T>) __builtin_memcpy(&odd, sums + elements / 2, sizeof odd);
  for (int k = 0; k < depth; ++k) {
    if (count < elements) {
      load_some<bytes>(matrix + k * stride, count, x);
    } else {
      load<bytes>(matrix + k * stride, x);
    }
    sum += x.values * widened(vector[k]);
    if constexpr (in_pairs<T>) odd += x.odd * widened(vector[k]);
  }
  __builtin_memcpy(sums, &sum, sizeof sum);
  if constexpr (in_pairs<T>) __builtin_memcpy(sums + elements / 2, &odd, sizeof odd);
}

/// Adds the terms of `depth` rows to the sums of `count` columns.
template <int bytes, int depth, class T>
COCONET_INLINE void add_rows(const T* matrix, std::int64_t stride, const T* vector,
                             std::int64_t count, Sum<T>* sums) {
  constexpr int elements = Piece<T, bytes>::elements;
  std::int64_t j = 0;
  for (; j + elements <= count; j += elements)
    add_terms<bytes, depth>(matrix + j, stride, vector, elements, sums + j);
  if (j < count) add_terms<bytes, depth>(matrix + j, stride, vector, count - j, sums + j);
}

/// Rounds sums that are in the order of Pieces.
template <int bytes, class T>
COCONET_INLINE void round_columns(const Sum<T>* sums, std::int64_t count, T* out) {
  constexpr int elements = Piece<T, bytes>::elements;
  if constexpr (in_pairs<T>) {
    constexpr int pairs = elements / 2;
    for (std::int64_t j = 0; j < count; j += elements) {
      T rounded[elements];
      for (int i = 0; i < pairs; ++i) {
        round_into(sums[j + i], rounded[2 * i]);
        round_into(sums[j + pairs + i], rounded[2 * i + 1]);
      }
      const std::int64_t here = count - j < elements ? count - j : elements;
      __builtin_memcpy(out + j, rounded, here * sizeof(T));
    }
  } else {
    __builtin_memcpy(out, sums, count * sizeof(T));
  }
}

template <int bytes, class T>
COCONET_INLINE void columns_of(const T* matrix, std::int64_t stride, const T* vector,
                               std::int64_t count, std::int64_t terms, T* out) {
  constexpr std::int64_t width = (16 << 10) / sizeof(Sum<T>);  // their sums stay in the first cache
  constexpr int depth = 8;                                     // rows that are streamed at once
  constexpr std::int64_t elements = Piece<T, bytes>::elements;
  Sum<T> sums[width];
  for (std::int64_t first = 0; first < count; first += width) {
    const std::int64_t here = count - first < width ? count - first : width;
    const std::int64_t pieces = (here + elements - 1) / elements;
    for (std::int64_t j = 0; j < pieces * elements; ++j) sums[j] = 0;
    const T* const columns = matrix + first;
    std::int64_t k = 0;
    for (; k + depth <= terms; k += depth)
      add_rows<bytes, depth>(columns + k * stride, stride, vector + k, here, sums);
    for (; k < terms; ++k) add_rows<bytes, 1>(columns + k * stride, stride, vector + k, here, sums);
    round_columns<bytes>(sums, here, out + first);
  }
}

template <class T>
using Multiply = void (*)(const T*, std::int64_t, const T*, std::int64_t, std::int64_t, T*);

/// Products of matrices and vectors of T.
template <class T>
struct Products {
  Multiply<T> rows, columns;
};

/// The functions of one set of instructions.
struct Table : Products<float>, Products<double>, Products<BFloat16> {
  void (*widen)(const BFloat16*, std::int64_t, float*);
  void (*narrow)(const float*, std::int64_t, BFloat16*);
  void (*add)(const float*, std::int64_t, float*);
};

// COCONET_LOOPS(Name, bytes of a vector, attributes): the functions with these attributes.
#define COCONET_LOOPS(Name, bytes, ...)                                                    \
  struct Name {                                                                            \
    template <class T>                                                                     \
    __VA_ARGS__ static void rows(const T* matrix, std::int64_t stride, const T* vector,    \
                                 std::int64_t count, std::int64_t terms, T* out) {         \
      rows_of<bytes>(matrix, stride, vector, count, terms, out);                           \
    }                                                                                      \
    template <class T>                                                                     \
    __VA_ARGS__ static void columns(const T* matrix, std::int64_t stride, const T* vector, \
                                    std::int64_t count, std::int64_t terms, T* out) {      \
      columns_of<bytes>(matrix, stride, vector, count, terms, out);                        \
    }                                                                                      \
    __VA_ARGS__ static void widen(const BFloat16* from, std::int64_t count, float* to) {   \
      for (std::int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);                   \
    }                                                                                      \
    __VA_ARGS__ static void narrow(const float* from, std::int64_t count, BFloat16* to) {  \
      for (std::int64_t i = 0; i < count; ++i) round_into(from[i], to[i]);                 \
    }                                                                                      \
    __VA_ARGS__ static void add(const float* from, std::int64_t count, float* to) {        \
      for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];                           \
    }                                                                                      \
    static constexpr Table table = {{rows<float>, columns<float>},                         \
                                    {rows<double>, columns<double>},                       \
                                    {rows<BFloat16>, columns<BFloat16>},                   \
                                    widen,                                                 \
                                    narrow,                                                \
                                    add};                                                  \
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

template <class T>
void multiply_rows(const T* matrix, std::int64_t stride, const T* vector, std::int64_t count,
                   std::int64_t terms, T* out) {
  table().Products<T>::rows(matrix, stride, vector, count, terms, out);
}
template <class T>
void multiply_columns(const T* matrix, std::int64_t stride, const T* vector, std::int64_t count,
                      std::int64_t terms, T* out) {
  table().Products<T>::columns(matrix, stride, vector, count, terms, out);
}
#define COCONET_PRODUCTS(T)                                                                      \
  template void multiply_rows(const T*, std::int64_t, const T*, std::int64_t, std::int64_t, T*); \
  template void multiply_columns(const T*, std::int64_t, const T*, std::int64_t, std::int64_t, T*);
COCONET_PRODUCTS(float)
COCONET_PRODUCTS(double)
COCONET_PRODUCTS(BFloat16)

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
