// Prelude, host half: what kernels are written in, for the system C++ compiler. It includes
// nothing, so that a kernel compiles in a fraction of a second; cuda.h gives the same names for
// NVRTC.
//
// Ranks are processes or threads that share memory, and flags are atomics in it. How a block runs
// is a file of its own: as one lane (lane.h) or as many threads (threads.h).

#define DEVICE static inline __attribute__((always_inline))
/// Of a kernel with loops over elements. Where a function is static, clang passes what its lambdas
/// capture by itself, and forgets over it that no turn of such a loop depends on another one.
#if defined(__clang__)
#define DEVICE_BODY inline __attribute__((always_inline))
#else
#define DEVICE_BODY DEVICE
#endif
#define DEVICE_MEMBER inline __attribute__((always_inline))
/// Of a lambda that is a loop's body: a call would keep the loop from becoming vector code.
#define INLINED __attribute__((always_inline))
#define OFFSET_OF(member, ...) __builtin_offsetof(__VA_ARGS__, member)
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("nounroll")
#else
#define UNROLL _Pragma("GCC unroll 64")
#define ROLLED _Pragma("GCC unroll 1")
#endif
/// A function that is called, not copied to each of its many uses.
#define DEVICE_CALL static __attribute__((noinline))
/// A member that is a part of a kernel: called here, where gcc takes two to three times as long for
/// all parts in one function, and copied on GPUs, which keeps what parts share in registers.
#define DEVICE_PART __attribute__((noinline))

/// How far ahead of their turn lines of long arrays are fetched.
constexpr index_t BYTES_AHEAD = 1024;

// ---- bits and math ------------------------------------------------------------------------------

DEVICE u32 bits_of(f32 x) { return __builtin_bit_cast(u32, x); }
DEVICE f32 float_of(u32 x) { return __builtin_bit_cast(f32, x); }

/// A function of the C library; see common.h.
#define LIBRARY(name) __builtin_##name

// ---- floats as integers -------------------------------------------------------------------------

DEVICE f32 magnitude(f32 x) { return __builtin_fabsf(x); }
DEVICE f64 magnitude(f64 x) { return __builtin_fabs(x); }
DEVICE f32 with_sign_of(f32 x, f32 size) { return __builtin_copysignf(size, x); }
DEVICE f64 with_sign_of(f64 x, f64 size) { return __builtin_copysign(size, x); }
DEVICE f64 zero_if_nan(f64 x) {
  return __builtin_bit_cast(f64, __builtin_bit_cast(u64, x) & -u64(x == x));
}

/// A float toward zero, within T's limits, and 0 of NaN, in lanes of L. C++ defines no conversion
/// of what L has not, so that x is brought within limits first: by its magnitude, and with bits of
/// comparisons, because gcc takes two choices of constants in a row apart into many masks.
template <class T, class L, class S>
DEVICE L saturated(S x) {
  constexpr int digits = sizeof(S) == 4 ? 24 : 53;
  constexpr S bottom = S(limits<T>::bottom);
  if constexpr (8 * int(sizeof(T)) > digits) {  // the greatest T is no S, but the next integer is
    const S above = x > bottom ? x : bottom;
    const L beyond = x >= -bottom ? L(limits<T>::top) : L(0);
    return x < -bottom ? L(above) : beyond;
  } else if constexpr (sizeof(T) == 4) {
    const f64 number = zero_if_nan(x);
    const f64 size = magnitude(number);
    const f64 within = with_sign_of(number, size < -bottom ? size : -bottom);
    return L(within - (within >= -bottom ? 1.0 : 0.0));
  } else {
    typedef decltype(L() + 0) wide;  // i32 or i64
    constexpr bool is_signed = limits<T>::is_signed;
    constexpr S most = is_signed ? -bottom : S(limits<T>::top);
    const S size = magnitude(x);
    const wide value = wide(with_sign_of(x, size < most ? size : most));
    constexpr wide end = is_signed ? wide(limits<T>::top) : wide(0);
    const wide least = value < end ? value : end, greatest = value > end ? value : end;
    return L((is_signed ? least : greatest) & -wide(x == x));
  }
}

// ---- 16-bit floats: widened to f32 to compute, rounded to nearest even to store -----------------
// Written without branches, so that loops over lanes become vector code; and widening without a
// select either, which compilers make a branch of where they do not.

DEVICE f32 wide(f16 x) {
  const u32 magnitude = (u32(x.bits) & 0x7fffu) << 13;
  // 2^112 moves the exponent's bias, exactly
  const f32 scaled = float_of(magnitude) * float_of(0x77800000u);
  // infinity's and NaN's exponent
  const u32 special = u32(i32(magnitude + 0x70800000u) >> 31) & 0x7f800000u;
  return float_of(bits_of(scaled) | special | (u32(x.bits) & 0x8000u) << 16);
}
DEVICE f32 wide(bf16 x) { return float_of(u32(x.bits) << 16); }

template <>
struct narrow_to<f16> {
  DEVICE f16 from(f32 x) {
    const u32 sign = bits_of(x) >> 16 & 0x8000u;
    const u32 magnitude = bits_of(x) & 0x7fffffffu;
    const u32 odd = magnitude >> 13 & 1u;
    const u32 normal = (magnitude + 0xc8000fffu + odd) >> 13;
    // Adding 0.5 aligns a subnormal's last bit with the float's: the addition itself rounds to
    // nearest even.
    const u32 subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const u32 special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const u32 finite = magnitude < 0x38800000u ? subnormal : normal;
    return f16{static_cast<unsigned short>(sign | (magnitude >= 0x477ff000u ? special : finite))};
  }
  /// An f32 rounded to f16 and widened again: what a loop over lanes does with 32 bits alone.
  DEVICE f32 rounded(f32 x) {
    const i32 magnitude = i32(bits_of(x) & 0x7fffffffu);
    const i32 exponent = i32(bits_of(x) & 0x7f800000u);
    // A power of two whose last bit is that of the f16: to add it rounds to nearest even.
    const i32 power = (exponent > 0x38800000 ? exponent : 0x38800000) + 0x06800000;
    const f32 finite = (float_of(u32(magnitude)) + float_of(u32(power))) - float_of(u32(power));
    // By arithmetic: gcc makes three choices of one inside another.
    const u32 special = 0x7f800000u | (u32((0x7f800000 - magnitude) >> 31) & 0x400000u);
    return float_of((bits_of(x) & 0x80000000u) |
                    (magnitude >= 0x477ff000 ? special : bits_of(finite)));
  }
};
template <>
struct narrow_to<bf16> {
  DEVICE bf16 from(f32 x) {
    const u32 bits = bits_of(x);
    const u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const u32 quiet_nan = bits >> 16 | 0x40u;
    return bf16{
        static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded)};
  }
  DEVICE f32 rounded(f32 x) {
    const u32 bits = bits_of(x);
    const u32 nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return float_of((x != x ? bits | 0x400000u : nearest) & 0xffff0000u);
  }
};

// ---- waiting for other ranks --------------------------------------------------------------------

/// What a function that is called gets of a kernel's arguments: a copy. Of arguments whose address
/// it had, compilers take each store of a vector for a change, and load them all again after it.
template <class T>
DEVICE T handed_on(const T& arguments) { return arguments; }

struct host_time {
  long seconds, nanoseconds;
};
extern "C" int clock_gettime(int clock, host_time* time);
extern "C" int sched_yield();

/// Nanoseconds of a clock that only goes forward.
DEVICE u64 now() {
  host_time time;
  clock_gettime(1, &time);
  return u64(time.seconds) * 1000000000u + u64(time.nanoseconds);
}

/// Whether blocks can tell how long they wait.
constexpr bool TELLS_WAITS = true;

DEVICE void signal(u64* flag, u64 value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }
DEVICE u64 observe(const u64* flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

/// Adds to a count that others wait for; what was written before is visible to who sees the sum.
DEVICE void add_release(u64* count, u64 more) { __atomic_fetch_add(count, more, __ATOMIC_RELEASE); }

/// Adds one to a count of blocks of this launch, and returns what it was. What those wrote that
/// added before is visible after.
DEVICE u64 arrive(u64* count) { return __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL); }

/// Sets `*word` to `value` if it is zero; whether this call did so.
DEVICE bool claim(u64* word, u64 value) {
  u64 expected = 0;
  return __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

/// A word that another rank or thread may write at the same time, which holds its own flag. It
/// orders nothing around it.
DEVICE u64 load_relaxed(const u64* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
DEVICE void store_relaxed(u64* to, u64 value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }
/// Several such words.
template <int N>
DEVICE void load_relaxed(const u64* from, u64 (&to)[N]) {
  for (int i = 0; i < N; ++i) to[i] = load_relaxed(from + i);
}
template <int N>
DEVICE void store_relaxed(u64* to, const u64 (&from)[N]) {
  for (int i = 0; i < N; ++i) store_relaxed(to + i, from[i]);
}
