// Prelude, the half that host and CUDA share: dtypes' computation, and reductions.

// ---- math ---------------------------------------------------------------------------------------

DEVICE f32 sqrt_(f32 x) { return LIBRARY(sqrtf)(x); }
DEVICE f64 sqrt_(f64 x) { return LIBRARY(sqrt)(x); }
DEVICE f32 floor_(f32 x) { return LIBRARY(floorf)(x); }
DEVICE f64 floor_(f64 x) { return LIBRARY(floor)(x); }
DEVICE f32 ceil_(f32 x) { return LIBRARY(ceilf)(x); }
DEVICE f64 ceil_(f64 x) { return LIBRARY(ceil)(x); }

// ---- computation types: f16 and bf16 compute in f32, all others in their own type ---------------

DEVICE f64 wide(f64 x) { return x; }
DEVICE f32 wide(f32 x) { return x; }
DEVICE i64 wide(i64 x) { return x; }
DEVICE i32 wide(i32 x) { return x; }
DEVICE i16 wide(i16 x) { return x; }
DEVICE i8 wide(i8 x) { return x; }
DEVICE u8 wide(u8 x) { return x; }

template <class T>
struct wide_type {
  typedef T type;
};
template <>
struct wide_type<f16> {
  typedef f32 type;
};
template <>
struct wide_type<bf16> {
  typedef f32 type;
};

/// f16 and bf16 are in host.h and cuda.h.
template <class T>
struct narrow_to {
  template <class S>
  DEVICE T from(S x) {
    return T(x);
  }
  template <class S>
  DEVICE S rounded(S x) {
    return S(T(x));
  }
};

/// An integer as a float. Zero is chosen apart because gcc makes a truncation of a float's way to
/// an integer and back, and that keeps a zero's sign.
template <class T, class S>
DEVICE T to_float(S x) {
  return x == 0 ? T(0) : T(x);
}

/// Types that f32 does not hold: on the way through it, values would be rounded to 16 bits twice.
template <class S>
constexpr bool exceeds_f32 = false;
template <>
constexpr bool exceeds_f32<f64> = true;
template <>
constexpr bool exceeds_f32<i32> = true;
template <>
constexpr bool exceeds_f32<i64> = true;

/// A T of 16 bits among those of f64: its least normal number, the bits of a fraction that it has
/// not, as a power of two, and where infinity is the nearest.
template <class T>
struct among_f64;
template <>
struct among_f64<f16> {
  static constexpr f64 least = 0x1p-14, unused = 0x1p42, beyond = 65520;
};
template <>
struct among_f64<bf16> {
  static constexpr f64 least = 0x1p-126, unused = 0x1p45, beyond = 0x1.ffp127;
};

constexpr f64 infinity = __builtin_bit_cast(f64, 0x7ff0000000000000ull);

/// The T of 16 bits that is nearest to x, ties to even, with what lanes of 64 bits can do alone.
template <class T>
DEVICE f32 nearest(f64 x) {
  typedef among_f64<T> of;
  const u64 bits = __builtin_bit_cast(u64, x);
  const f64 size = __builtin_bit_cast(f64, bits & 0x7fffffffffffffffull);
  const f64 exponent = __builtin_bit_cast(f64, bits & 0x7ff0000000000000ull);
  // A power of two whose last bit is that of the T: to add it rounds to nearest even.
  const f64 power = (exponent > of::least ? exponent : of::least) * of::unused;
  const f64 finite = (size + power) - power;
  const u64 within = __builtin_bit_cast(u64, size >= of::beyond ? infinity : finite);
  return f32(__builtin_bit_cast(f64, within | (bits & 0x8000000000000000ull)));
}

/// `x` as a multiple of 2^BITS: as an odd one where it is none, so that it is rounded as x is.
template <int BITS, class S>
DEVICE S to_odd(S x) {
  constexpr S low = (S(1) << BITS) - 1;
  return S((x >> BITS | S((x & low) != 0)) << BITS);
}

template <class T>
DEVICE f32 nearest(i32 x) {
  if constexpr (among_f64<T>::beyond < 1 << 24) {
    const i32 below = x < 1 << 24 ? x : 1 << 24;
    return narrow_to<T>::rounded(to_float<f32>(below > -(1 << 24) ? below : -(1 << 24)));
  } else {
    const bool is_f32 = u32(x) + (1u << 24) <= 2u << 24;
    return narrow_to<T>::rounded(to_float<f32>(is_f32 ? x : to_odd<8>(x)));
  }
}
template <class T>
DEVICE f32 nearest(i64 x) {
  if constexpr (among_f64<T>::beyond < 1 << 24) {
    const i64 below = x < 1 << 24 ? x : 1 << 24;
    return narrow_to<T>::rounded(to_float<f32>(below > -(1 << 24) ? below : -(1 << 24)));
  } else {
    const bool is_f64 = u64(x) + (u64(1) << 53) <= u64(2) << 53;
    return nearest<T>(to_float<f64>(is_f64 ? x : to_odd<10>(x)));
  }
}

/// `x` as a stored T: rounded to nearest even, wrapped, or unchanged.
template <class T, class S>
DEVICE T narrow(S x) {
  if constexpr (has_16_bits<T> && exceeds_f32<S>)
    return narrow_to<T>::from(nearest<T>(x));
  else
    return narrow_to<T>::from(typename wide_type<T>::type(x));
}

/// `x` rounded to T, in T's computation type.
template <class T, class S>
DEVICE typename wide_type<T>::type rounded(S x) {
  if constexpr (has_16_bits<T> && exceeds_f32<S>)
    return nearest<T>(x);
  else
    return narrow_to<T>::rounded(typename wide_type<T>::type(x));
}

/// Elements as they are computed with.
template <int N, class T>
DEVICE vec<N, typename wide_type<T>::type> widened(const vec<N, T>& stored) {
  vec<N, typename wide_type<T>::type> value;
  lanes<N>([&](int l) { value[l] = wide(stored[l]); });
  return value;
}

/// Elements as they are stored. Widths change between loops over lanes, not in them: on the host a
/// loop's vectors have as many lanes as its widest and its narrowest type allow.
template <class T, int N, class S>
DEVICE vec<N, T> narrowed(const vec<N, S>& value) {
  vec<N, T> stored;
  lanes<N>([&](int l) { stored[l] = narrow<T>(value[l]); });
  return stored;
}

/// Values that T has, as they are stored: nothing is rounded.
template <class T, int N, class S>
DEVICE vec<N, T> narrowed_exactly(const vec<N, S>& value) {
  return narrowed<T>(value);
}

DEVICE f32 abs_(f32 x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
DEVICE f64 abs_(f64 x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
DEVICE i64 abs_(i64 x) { return x < 0 ? i64(-u64(x)) : x; }
DEVICE i32 abs_(i32 x) { return x < 0 ? i32(-u32(x)) : x; }
DEVICE i16 abs_(i16 x) { return i16(x < 0 ? -x : x); }
DEVICE i8 abs_(i8 x) { return i8(x < 0 ? -x : x); }
DEVICE u8 abs_(u8 x) { return x; }

/// That of a zero is 0, not -0.
template <class T>
DEVICE T sign_(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : T(x + T(0));
}

/// An f32 as the nearest bf16, ties away from zero, and its lower 16 bits; and put together again.
/// NaN stays NaN: as it may have nothing above them, the upper half is made quiet.
DEVICE f32 upper_half_(f32 x) {
  const u32 bits = bits_of(x);
  return float_of((x == x ? bits + 0x8000u : bits | 0x400000u) & 0xffff0000u);
}
DEVICE i32 lower_half_(f32 x) { return i32(bits_of(x) & 0xffffu); }
DEVICE f32 join_halves_(f32 upper, i32 lower) {
  const u32 low = u32(lower);
  const u32 rounded_away = upper == upper ? (low & 0x8000u) << 1 : 0u;
  return float_of((bits_of(upper) - rounded_away) | (low & 0xffffu));
}

// ---- reductions ---------------------------------------------------------------------------------

template <class T>
struct limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T top = is_signed ? T((u64(1) << (8 * sizeof(T) - 1)) - 1) : T(~u64(0));
  static constexpr T bottom = is_signed ? T(-top - 1) : T(0);
};
template <>
struct limits<f32> {
  static constexpr f32 top = f32(infinity), bottom = f32(-infinity);
};
template <>
struct limits<f64> {
  static constexpr f64 top = infinity, bottom = -infinity;
};

/// `x`, of a type that is as wide as the kernel's lanes, wrapped as a T of 8 or 16 bits.
template <class T, class S>
DEVICE S wrapped(S x) {
  constexpr int unused = 8 * int(sizeof(S) - sizeof(T));
  return limits<T>::is_signed ? S(x << unused) >> unused : S(x & 255);
}

/// `x` as a T of integers, in lanes of L: a float toward zero, within T's limits, and 0 of NaN; an
/// integer wrapped.
template <class T, class L = T, class S>
DEVICE L to_integer(S x) {
  if constexpr (is_computed_float<S>)
    return saturated<T, L>(x);
  else if constexpr (sizeof(L) > sizeof(T))
    return wrapped<T>(L(x));
  else
    return L(x);
}

struct sum_of {
  template <class T>
  DEVICE T identity() {
    return T(0);
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    typedef typename wrapping<T>::type type;
    return T(type(a) + type(b));
  }
};
struct prod_of {
  template <class T>
  DEVICE T identity() {
    return T(1);
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    typedef typename wrapping<T>::type type;
    return T(type(a) * type(b));
  }
};
struct max_of {
  template <class T>
  DEVICE T identity() {
    return limits<T>::bottom;
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    const T larger = a > b ? a : b;  // one instruction
    return a != a ? a : larger;
  }
};
struct min_of {
  template <class T>
  DEVICE T identity() {
    return limits<T>::top;
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    const T smaller = a < b ? a : b;  // one instruction
    return a != a ? a : smaller;
  }
};

/// What totals of T are accumulated in: f32 sums of many elements keep their digits in f64.
template <class Op, class T>
struct total_type {
  typedef T type;
};
template <>
struct total_type<sum_of, f32> {
  typedef f64 type;
};
template <>
struct total_type<prod_of, f32> {
  typedef f64 type;
};

/// A total for each of N lanes, nothing added yet.
template <class Op, int N, class T>
DEVICE vec<N, T> no_totals() {
  vec<N, T> totals;
  lanes<N>([&](int l) { totals[l] = Op::template identity<T>(); });
  return totals;
}
