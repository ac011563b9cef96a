// The reductions of collectives: one loop per dtype and operator, instantiated from one template.
#include "jit/comm/collectives/combine.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "coconet/error.h"
#include "ir/half.h"
#include "jit/config/build_info.h"
#include "jit/config/instruction_set.h"

#define COCONET_INLINE [[gnu::always_inline]] inline

namespace coconet::jit {

namespace {

/// bool as it is stored.
struct Truth {
  std::uint8_t value;
};

/// As what it is computed in.
template <class T>
COCONET_INLINE auto widen(T value) {
  if constexpr (std::is_same_v<T, Truth>) {
    return value.value != 0;
  } else if constexpr (std::is_class_v<T>) {
    return ir::widened(value);
  } else {
    return value;
  }
}

template <class T, class A>
COCONET_INLINE T narrow(A value) {
  if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<std::uint8_t>(value)};
  } else if constexpr (std::is_class_v<T>) {
    return ir::narrowed<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <Reduction reduction, class A>
COCONET_INLINE A apply(A a, A b) {
  constexpr bool larger = reduction == Reduction::max;
  if constexpr (std::is_same_v<A, bool>) {
    return reduction == Reduction::sum || larger ? a || b : a && b;
  } else if constexpr (larger) {
    return a > b || a != a ? a : b;
  } else if constexpr (reduction == Reduction::min) {
    return a < b || a != a ? a : b;
  } else if constexpr (std::is_integral_v<A>) {
    // Unsigned, where overflow wraps; narrower types are the low part of it.
    using Wrapping = std::conditional_t<sizeof(A) == 8, std::uint64_t, std::uint32_t>;
    const auto x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
    return static_cast<A>(reduction == Reduction::sum ? x + y : x * y);
  } else {
    return reduction == Reduction::prod ? a * b : a + b;
  }
}

template <class T, Reduction reduction>
void combine_as(const void* in, void* inout, std::size_t count) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (std::size_t i = 0; i < count; ++i)
    b[i] = narrow<T>(apply<reduction>(widen(a[i]), widen(b[i])));
}

/// Bytes from `to` to the next line of the caches, which is written past them as a whole.
std::size_t bytes_to_line(const void* to) {
  constexpr std::size_t line = 64;
  return (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
}

/// Writes past the caches, from the first line that begins in `to` on, where that is possible and a
/// sanitizer would not miss it. `end_streaming` must follow before others are told.
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t vector = sizeof(__m128i);
  const std::size_t head = std::min(bytes_to_line(to), bytes);
  if (build_info::sanitize.empty() && bytes - head >= vector) {
    std::memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= vector; to += vector, from += vector, bytes -= vector) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
  }
#endif
  std::memcpy(to, from, bytes);
}

/// A release store does not order streaming stores before it.
void end_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void put(const Destination& to, std::size_t at, const void* from, std::size_t bytes) {
  std::byte* const begin = static_cast<std::byte*>(to.data) + at;
  if (to.past_caches) {
    stream(begin, static_cast<const std::byte*>(from), bytes);
  } else {
    std::memcpy(begin, from, bytes);
  }
}

/// Elements that are combined at a time: what becomes of them stays in the first cache.
constexpr std::size_t block = 1024;

/// out[i] = a[i] (+) b[i], and half of that where it is a mean.
template <class T, Reduction reduction>
COCONET_INLINE void combine_two(const T* __restrict a, const T* __restrict b, std::size_t count,
                                T* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = apply<reduction>(widen(a[i]), widen(b[i]));
    if constexpr (reduction == Reduction::mean) sum = sum / 2;
    out[i] = narrow<T>(sum);
  }
}

#if defined(__x86_64__)
// f16 by the processor's own conversions, which give the same bits but those of NaN.

[[gnu::target("avx2,f16c")]] void widen_f16(const Half* from, std::size_t count, float* to) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  for (; i < count; ++i) to[i] = ir::widened(from[i]);
}

[[gnu::target("avx2,f16c")]] void narrow_f16(const float* from, std::size_t count, Half* to) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    if (_mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) == 0) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    } else {
      for (std::size_t at = i; at < i + 8; ++at) to[at] = ir::narrowed<Half>(from[at]);
    }
  }
  for (; i < count; ++i) to[i] = ir::narrowed<Half>(from[i]);
}

bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

/// `converts_f16`: T is f16, and the processor's own instructions convert it.
template <class T, Reduction reduction, bool converts_f16>
COCONET_INLINE void combine_parts(std::span<const void* const> parts, std::size_t begin,
                                  std::size_t count, T* __restrict out) {
  using A = decltype(widen(T{}));
  std::array<A, block> sums;
  [[maybe_unused]] std::array<A, block> next;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const T* in = static_cast<const T*>(parts[part]) + begin;
    if constexpr (converts_f16) {
      widen_f16(in, count, part == 0 ? sums.data() : next.data());
      if (part == 0) continue;
      for (std::size_t i = 0; i < count; ++i) sums[i] = apply<reduction>(sums[i], next[i]);
    } else if (part == 0) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = widen(in[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) sums[i] = apply<reduction>(sums[i], widen(in[i]));
    }
  }
  if constexpr (reduction == Reduction::mean) {
    const A ranks = static_cast<A>(parts.size());
    for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] / ranks;
  }
  if constexpr (converts_f16) {
    narrow_f16(sums.data(), count, out);
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = narrow<T>(sums[i]);
  }
}

template <class T, Reduction reduction, bool converts_f16 = false>
COCONET_INLINE void combine_blocks(std::span<const void* const> parts, std::size_t count,
                                   std::span<const Destination> outs) {
  const bool is_direct = outs.size() == 1 && !outs.front().past_caches;
  std::array<T, block> results;
  // The first block ends where a line begins that is written past the caches.
  std::size_t length = block;
  for (const Destination& out : outs) {
    if (out.past_caches && bytes_to_line(out.data) >= sizeof(T))
      length = bytes_to_line(out.data) / sizeof(T);
  }
  for (std::size_t begin = 0; begin < count; begin += length, length = block) {
    length = std::min(length, count - begin);
    T* const to = is_direct ? static_cast<T*>(outs.front().data) + begin : results.data();
    if (parts.size() == 2 && !converts_f16) {
      combine_two<T, reduction>(static_cast<const T*>(parts[0]) + begin,
                                static_cast<const T*>(parts[1]) + begin, length, to);
    } else {
      combine_parts<T, reduction, converts_f16>(parts, begin, length, to);
    }
    for (const Destination& out : outs) {
      if (!is_direct) put(out, begin * sizeof(T), results.data(), length * sizeof(T));
    }
  }
}

// The bits are the same: each operation is rounded by itself.
template <class T, Reduction reduction>
void combine_baseline(std::span<const void* const> parts, std::size_t count,
                      std::span<const Destination> outs) {
  combine_blocks<T, reduction>(parts, count, outs);
}
#if defined(__x86_64__)
template <class T, Reduction reduction>
[[gnu::target("avx2")]] void combine_avx2(std::span<const void* const> parts, std::size_t count,
                                          std::span<const Destination> outs) {
  if constexpr (std::is_same_v<T, Half>) {
    static const bool converts_f16 = has_f16c();
    if (converts_f16) return combine_blocks<T, reduction, true>(parts, count, outs);
  }
  combine_blocks<T, reduction>(parts, count, outs);
}
#endif

template <class T, Reduction reduction>
void combine_in_order_as(std::span<const void* const> parts, std::size_t count,
                         std::span<const Destination> outs) {
#if defined(__x86_64__)
  static const bool has_avx2 = processor_instructions() >= InstructionSet::avx2;
  if (has_avx2) return combine_avx2<T, reduction>(parts, count, outs);
#endif
  combine_baseline<T, reduction>(parts, count, outs);
}

constexpr const char* no_mean = "a mean was asked for where only sums are taken, or of integers";

/// Calls `body.operator()<T, reduction>()` for the C++ type of `dtype`.
template <class Body>
void dispatch(DType dtype, Reduction reduction, const Body& body) {
  const auto with_type = [&]<class T>() {
    switch (reduction) {
      case Reduction::sum:
        return body.template operator()<T, Reduction::sum>();
      case Reduction::max:
        return body.template operator()<T, Reduction::max>();
      case Reduction::min:
        return body.template operator()<T, Reduction::min>();
      case Reduction::prod:
        return body.template operator()<T, Reduction::prod>();
      case Reduction::mean:
        if constexpr (std::is_floating_point_v<decltype(widen(T{}))>)
          return body.template operator()<T, Reduction::mean>();
        break;
    }
    throw InternalError(no_mean);
  };
  switch (dtype) {
    case DType::f64:
      return with_type.template operator()<double>();
    case DType::f32:
      return with_type.template operator()<float>();
    case DType::f16:
      return with_type.template operator()<Half>();
    case DType::bf16:
      return with_type.template operator()<BFloat16>();
    case DType::i64:
      return with_type.template operator()<std::int64_t>();
    case DType::i32:
      return with_type.template operator()<std::int32_t>();
    case DType::i16:
      return with_type.template operator()<std::int16_t>();
    case DType::i8:
      return with_type.template operator()<std::int8_t>();
    case DType::u8:
      return with_type.template operator()<std::uint8_t>();
    case DType::boolean:
      return with_type.template operator()<Truth>();
  }
}

}  // namespace

void combine(DType dtype, Reduction reduction, const void* in, void* inout, std::size_t count) {
  if (reduction == Reduction::mean) throw InternalError(no_mean);
  dispatch(dtype, reduction, [&]<class T, Reduction op>() { combine_as<T, op>(in, inout, count); });
}

void divide(DType dtype, void* data, std::size_t count, int by) {
  dispatch(dtype, Reduction::mean, [&]<class T, Reduction op>() {
    T* const values = static_cast<T*>(data);
    const auto ranks = static_cast<decltype(widen(T{}))>(by);
    for (std::size_t i = 0; i < count; ++i) values[i] = narrow<T>(widen(values[i]) / ranks);
  });
}

void combine_in_order(DType dtype, Reduction reduction, std::span<const void* const> parts,
                      std::size_t count, std::span<const Destination> outs) {
  dispatch(dtype, reduction,
           [&]<class T, Reduction op>() { combine_in_order_as<T, op>(parts, count, outs); });
  if (std::ranges::any_of(outs, &Destination::past_caches)) end_streaming();
}

void copy_to(const Destination& to, const void* from, std::size_t bytes) {
  if (bytes > 0) put(to, 0, from, bytes);
  if (to.past_caches) end_streaming();
}

}  // namespace coconet::jit
