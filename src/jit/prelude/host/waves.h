// Prelude, host half: sin and cos, made as the functions of math.h are. They are polynomials near
// 0; far from it C's library takes the argument apart.

#ifdef HAS_OWN_MATH
/// x = n * pi / 2 + rest, where |rest| is pi / 4 at most, and n's last bits are those of `quarter`;
/// of an x within `farthest`. pi / 2 is in three parts: the first multiply and add is exact.
template <class S>
struct by_half_pi {
  bits_in<S> quarter;
  S rest;
};
DEVICE by_half_pi<f32> divided_by_half_pi(f32 x) {
  constexpr f32 shift = float_parts<f32>::to_integer;
  const f32 shifted = fused(x, 0x1.45f306p-1f, shift);
  const f32 n = shifted - shift;
  const f32 rest = fused(n, 0x1.777a5cp-25f, fused(n, -0x1.921fb6p0f, x));
  return {to_bits(shifted), fused(n, 0x1.ee59dap-50f, rest)};
}
DEVICE by_half_pi<f64> divided_by_half_pi(f64 x) {
  constexpr f64 shift = float_parts<f64>::to_integer;
  const f64 shifted = fused(x, 0x1.45f306dc9c883p-1, shift);
  const f64 n = shifted - shift;
  const f64 rest = fused(n, -0x1.1a62633145c07p-54, fused(n, -0x1.921fb54442d18p0, x));
  return {to_bits(shifted), fused(n, 0x1.f1976b7ed8fbcp-110, rest)};
}
template <class S>
constexpr S farthest = sizeof(S) == 4 ? S(0x1p16) : S(0x1p30);

DEVICE f32 sin_near_0(f32 x, f32 z) {
  return fused(x * z, polynomial(z, -0x1.555552p-3f, 0x1.110be4p-7f, -0x1.9ab296p-13f), x);
}
DEVICE f64 sin_near_0(f64 x, f64 z) {
  const f64 p = polynomial(z, -0x1.5555555555555p-3, 0x1.1111111110c7ap-7, -0x1.a01a019e9eaf2p-13,
                           0x1.71de37ae58898p-19, -0x1.ae601d5079abep-26, 0x1.5e1033fed3aa1p-33);
  return fused(x * z, p, x);
}
/// Of z, the square of x.
DEVICE f32 cos_near_0(f32 z) {
  return fused(z * z, polynomial(z, 0x1.555554p-5f, -0x1.6c129cp-10f, 0x1.9bc614p-16f),
               fused(z, -0.5f, 1.0f));
}
DEVICE f64 cos_near_0(f64 z) {
  const f64 p = polynomial(z, 0x1.5555555555555p-5, -0x1.6c16c16c168c8p-10, 0x1.a01a019f37922p-16,
                           -0x1.27e4fa01e48dfp-22, 0x1.1eeb56ab2f1ap-29, -0x1.90729f536725p-37);
  return fused(z * z, p, fused(z, -0.5, 1.0));
}

struct sine {
  DEVICE f32 from_library(f32 x) { return LIBRARY(sinf)(x); }
  DEVICE f64 from_library(f64 x) { return LIBRARY(sin)(x); }
  static constexpr int quarters_ahead = 0;
};
struct cosine {
  DEVICE f32 from_library(f32 x) { return LIBRARY(cosf)(x); }
  DEVICE f64 from_library(f64 x) { return LIBRARY(cos)(x); }
  static constexpr int quarters_ahead = 1;
};
/// Of an x within `farthest`.
template <class Wave, class S>
DEVICE S wave_near_0(S x) {
  const auto by = divided_by_half_pi(x);
  const bits_in<S> quarter = by.quarter + Wave::quarters_ahead;
  const S z = by.rest * by.rest, of_even = sin_near_0(by.rest, z), of_odd = cos_near_0(z);
  const bits_in<S> size = to_bits((quarter & 1) != 0 ? of_odd : of_even);
  const S value = from_bits<S>(size ^ ((quarter & 2) << (8 * sizeof(S) - 2)));
  return Wave::quarters_ahead == 0 && x == 0 ? x : value;  // a zero's sign
}
/// Of any x: beyond `farthest` C's library takes the rest of x / (pi / 2).
template <class Wave>
struct whole_wave {
  template <class S>
  DEVICE_MEMBER S operator()(S x) const {
    if (magnitude(x) <= farthest<S>) return wave_near_0<Wave>(x);
    return Wave::from_library(x);
  }
};
/// Of any x within `farthest`; of others it says that they are not.
template <class Wave, class Flag>
struct near_wave {
  Flag& is_far;
  template <class S>
  DEVICE_MEMBER S operator()(S x) const {
    is_far |= magnitude(x) <= farthest<S> ? Flag(0) : Flag(1);
    return wave_near_0<Wave>(x);
  }
};
template <class S>
DEVICE S sin_(S x) {
  return whole_wave<sine>{}(x);
}
template <class S>
DEVICE S cos_(S x) {
  return whole_wave<cosine>{}(x);
}
/// Of BYTES: gcc takes half a vector for elements of 8 bytes beside flags of 4.
template <int BYTES>
struct flag_of {
  typedef u32 type;
};
template <>
struct flag_of<8> {
  typedef u64 type;
};
/// `lanes` of an f that is handed its sin_ and cos_, for elements of BYTES: lanes with an x that is
/// far are computed again, so that the others are vector code. f has no effect but on what it
/// stores for its lane.
template <int N, int BYTES, class F>
DEVICE void wave_lanes(F f) {
  typedef typename flag_of<BYTES>::type flag;
  flag far[N], any = 0;
  function_lanes<N>([&](int l) INLINED {
    flag is_far = 0;
    f(l, near_wave<sine, flag>{is_far}, near_wave<cosine, flag>{is_far});
    far[l] = is_far;
  });
  for (int l = 0; l < N; ++l) any |= far[l];
  if (__builtin_expect(any != 0, 0)) {
    for (int l = 0; l < N; ++l) {
      if (far[l] != 0) f(l, whole_wave<sine>{}, whole_wave<cosine>{});
    }
  }
}
#endif
