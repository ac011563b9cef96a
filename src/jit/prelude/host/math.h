// Prelude, host half: exp, log and their like as polynomials without branches, of which
// compilers make vector code, where C's library would be called for one element at a time. Every
// step is one operation that IEEE 754 rounds, or a fused multiply and add: a result is the same
// whatever the compiler, the length of its vectors, and the place in one. No result is off by more
// than 3 units in the last place (docs/programs.md has each function's greatest error); infinities,
// NaN, signed zeros and subnormals are as C's Annex F has them. math.sollya made the polynomials.

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HAS_OWN_MATH
/// `lanes` of an f that calls functions: clang takes a short loop apart before it makes vectors.
template <int N, class F>
DEVICE void function_lanes(F f) {
#if defined(__clang__)
  _Pragma("clang loop vectorize(enable) unroll(disable)")
#else
  ROLLED
#endif
  for (int l = 0; l < N; ++l) f(l);
}

DEVICE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

/// first + x * (second + x * (...)).
template <class S>
DEVICE S polynomial(S, S last) {
  return last;
}
template <class S, class... Rest>
DEVICE S polynomial(S x, S first, Rest... rest) {
  return fused(polynomial(x, S(rest)...), x, first);
}

template <class S>
struct float_parts;
template <>
struct float_parts<f32> {
  typedef u32 bits;
  static constexpr int fraction_bits = 23;
  static constexpr u32 bias = 127;
  /// What added to an x far smaller leaves its nearest integer in the last bits.
  static constexpr f32 to_integer = 0x1.8p23f;
};
template <>
struct float_parts<f64> {
  typedef u64 bits;
  static constexpr int fraction_bits = 52;
  static constexpr u64 bias = 1023;
  static constexpr f64 to_integer = 0x1.8p52;
};
template <class S>
using bits_in = typename float_parts<S>::bits;

template <class S>
DEVICE bits_in<S> to_bits(S x) {
  return __builtin_bit_cast(bits_in<S>, x);
}
template <class S>
DEVICE S from_bits(bits_in<S> x) {
  return __builtin_bit_cast(S, x);
}

/// NaN stays.
template <class S>
DEVICE S clamped(S x, S least, S most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

/// 2^n of n + to_integer.
template <class S>
DEVICE S power_of_2(S shifted) {
  typedef float_parts<S> parts;
  return from_bits<S>((to_bits(shifted) + parts::bias) << parts::fraction_bits);
}
/// value * 2^n, in two steps, neither of which leaves the exponents that floats have.
template <class S>
DEVICE S times_power_of_2(S value, S n) {
  constexpr S shift = float_parts<S>::to_integer;
  const S half = fused(n, S(0.5), shift);
  const S other = n - (half - shift);
  return value * power_of_2(half) * power_of_2(other + shift);
}

// ---- exp, expm1, tanh ---------------------------------------------------------------------------

/// x = n * log(2) + rest, where |rest| is log(2) / 2 at most, and shifted is n + to_integer. log(2)
/// in two parts, of which the first has zeros for n's bits (Cody and Waite, "Software Manual for
/// the Elementary Functions", 1980).
template <class S>
struct by_log_2 {
  S shifted, n, rest;
};
DEVICE by_log_2<f32> divided_by_log_2(f32 x) {
  constexpr f32 shift = float_parts<f32>::to_integer;
  const f32 shifted = fused(x, 0x1.715476p0f, shift);
  const f32 n = shifted - shift;
  return {shifted, n, fused(n, -0x1.7f7d1cp-20f, fused(n, -0x1.62e4p-1f, x))};
}
DEVICE by_log_2<f64> divided_by_log_2(f64 x) {
  constexpr f64 shift = float_parts<f64>::to_integer;
  const f64 shifted = fused(x, 0x1.71547652b82fep0, shift);
  const f64 n = shifted - shift;
  return {shifted, n, fused(n, -0x1.ef35793c7673p-45, fused(n, -0x1.62e42fefa38p-1, x))};
}

DEVICE f32 exp_near_0(f32 x) {
  return polynomial(x, 1.0f, 1.0f, 0x1p-1f, 0x1.5554dcp-3f, 0x1.5554eap-5f, 0x1.120c0ap-7f,
                    0x1.6d4bfep-10f);
}
DEVICE f64 exp_near_0(f64 x) {
  return polynomial(x, 1.0, 1.0, 0x1.0000000000001p-1, 0x1.5555555555558p-3, 0x1.5555555553cd6p-5,
                    0x1.111111110f8d9p-7, 0x1.6c16c178acd51p-10, 0x1.a01a01afb87cdp-13,
                    0x1.a019b8b19b673p-16, 0x1.71ddf782f2e0bp-19, 0x1.2891da18ce098p-22,
                    0x1.af61c99011aeep-26);
}
DEVICE f32 expm1_near_0(f32 x) {
  const f32 p = polynomial(x, 0x1p-1f, 0x1.555556p-3f, 0x1.555502p-5f, 0x1.110fc2p-7f,
                           0x1.6d2e08p-10f, 0x1.a2d998p-13f);
  return fused(x * x, p, x);
}
DEVICE f64 expm1_near_0(f64 x) {
  const f64 p = polynomial(x, 0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555557p-5,
                           0x1.111111111005p-7, 0x1.6c16c16c156a5p-10, 0x1.a01a01ac1e913p-13,
                           0x1.a01a01ab9885dp-16, 0x1.71de01aacddadp-19, 0x1.27e4cfaefcfe4p-22,
                           0x1.af4ecf3058ec3p-26, 0x1.1f86f0df0b6f2p-29);
  return fused(x * x, p, x);
}

template <class S>
DEVICE S exp_(S x) {
  constexpr bool is_f32 = sizeof(S) == 4;
  const auto by = divided_by_log_2(clamped(x, is_f32 ? S(-104) : S(-746), is_f32 ? S(89) : S(710)));
  return times_power_of_2(exp_near_0(by.rest), by.n);
}
/// (e^x - 1) / 2, which is a float as long as e^x / 2 is.
template <class S>
DEVICE S half_expm1(S x) {
  const auto by = divided_by_log_2(x);
  const S half = power_of_2(by.shifted - 1);
  return fused(half, expm1_near_0(by.rest), half - S(0.5));
}
template <class S>
DEVICE S expm1_(S x) {
  constexpr bool is_f32 = sizeof(S) == 4;
  const S half = half_expm1(clamped(x, is_f32 ? S(-18) : S(-38), is_f32 ? S(89) : S(710)));
  return with_sign_of(x, half + half);  // a zero's
}
template <class S>
DEVICE S tanh_(S x) {
  const S size = clamped(magnitude(x), S(0), sizeof(S) == 4 ? S(10) : S(22));  // the rest are 1
  const S half = half_expm1(size + size);
  return with_sign_of(x, half / (half + 1));
}

// ---- log, log1p ---------------------------------------------------------------------------------

/// x = 2^n * (1 + f), where 1 + f is from sqrt(1/2) to sqrt(2); of an x that is no subnormal.
template <class S>
struct by_power_of_2 {
  S n, f;
};
template <class S>
DEVICE by_power_of_2<S> divided_by_power_of_2(S x) {
  typedef float_parts<S> parts;
  typedef bits_in<S> bits;
  constexpr bits one = bits(1) << parts::fraction_bits;
  const bits root = to_bits(S(0.70710678118654752440));
  const bits above_root = to_bits(x) - root;
  const bits biased = (above_root + (parts::bias + 1) * one) / one;
  // An integer in the last bits of a float whose last bit is 1.
  const S n = from_bits<S>(biased | to_bits(S(one))) - S(one + parts::bias + 1);
  return {n, from_bits<S>((above_root & (one - 1)) + root) - 1};
}
/// `divided_by_power_of_2` of any x, subnormals included.
template <class S>
DEVICE by_power_of_2<S> divided_with_subnormals(S x) {
  typedef float_parts<S> parts;
  constexpr bits_in<S> one = bits_in<S>(1) << parts::fraction_bits;
  const bool is_subnormal = x < from_bits<S>(one);
  auto by = divided_by_power_of_2(is_subnormal ? x * S(one) : x);
  by.n -= is_subnormal ? S(parts::fraction_bits) : S(0);
  return by;
}

/// n * log(2) + log(1 + f).
DEVICE f32 log_of(f32 n, f32 f) {
  const f32 square = f * f;
  const f32 p =
      polynomial(f, 0x1.555554p-2f, -0x1.ffffe6p-3f, 0x1.999d2ap-3f, -0x1.556288p-3f, 0x1.23de4p-3f,
                 -0x1.fbbf2ep-4f, 0x1.dc75e8p-4f, -0x1.ddb2cep-4f, 0x1.2cb40ep-4f);
  // f - f^2 / 2 + f^3 * p
  const f32 low = fused(n, 0x1.7f7d1cp-20f, f * square * p);
  return fused(n, 0x1.62e4p-1f, f + fused(-0.5f, square, low));
}
/// As fdlibm's log: with s = f / (2 + f), log(1 + f) = f - (f^2 / 2 - s * (f^2 / 2 + r(s^2))).
DEVICE f64 log_of(f64 n, f64 f) {
  const f64 s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  const f64 r = z * polynomial(z, 0x1.5555555555592p-1, 0x1.999999997ff01p-2, 0x1.24924941e3c88p-2,
                               0x1.c71c52118bd53p-3, 0x1.74663da2ee9bfp-3, 0x1.39a1d33b4dddp-3,
                               0x1.2f04b158b0a38p-3);
  const f64 low = fused(n, 0x1.ef35793c7673p-45, s * (half_square + r));
  return fused(n, 0x1.62e42fefa38p-1, f - (half_square - low));
}
/// The log of 0, infinity, NaN and numbers below 0; of others `value`.
template <class S>
DEVICE S log_or_end(S x, S value) {
  const S above = x < S(infinity) ? value : x;
  const S from_0 = x == 0 ? S(-infinity) : above;
  return x < 0 ? S(infinity - infinity) : from_0;
}
template <class S>
DEVICE S log_(S x) {
  const auto by = divided_with_subnormals(x);
  return log_or_end(x, log_of(by.n, by.f));
}
template <class S>
DEVICE S log1p_(S x) {
  // What 1 + x loses, exactly (Knuth's TwoSum), is added to f.
  const S sum = 1 + x, of_x = sum - 1;
  const S lost = (x - of_x) + (1 - (sum - of_x));
  const auto by = divided_by_power_of_2(sum);
  const S down = power_of_2(float_parts<S>::to_integer - (by.n > 100 ? S(100) : by.n));
  const S value = log_of(by.n, fused(lost, down, by.f));
  return x == 0 ? x : log_or_end(sum, value);
}

// ---- erf ----------------------------------------------------------------------------------------

DEVICE f32 erf_near_0(f32 x) {
  const f32 p = polynomial(x * x, 0x1.06eba8p-3f, -0x1.81274p-2f, 0x1.ce2d52p-4f, -0x1.b7fec4p-6f,
                           0x1.542fecp-8f, -0x1.a5197ap-11f, 0x1.4c5cb4p-14f);
  return fused(x, p, x);
}
DEVICE f64 erf_near_0(f64 x) {
  const f64 p = polynomial(x * x, 0x1.06eba8214db68p-3, -0x1.812746b0379b5p-2, 0x1.ce2f21a040b02p-4,
                           -0x1.b82ce311f7069p-6, 0x1.565bccf908894p-8, -0x1.c02db03ff6859p-11,
                           0x1.f9a2bb4bba0e4p-14, -0x1.f4ca5bb2856d8p-17, 0x1.b9807f23388ap-20,
                           -0x1.5c0bc3130e3f7p-23, 0x1.d73d744d57c7cp-27, -0x1.ac1a4196e71cbp-31);
  return fused(x, p, x);
}
/// -log(1 - erf(x)) from 1 to where erf(x) is 1.
DEVICE f32 log_of_erf_tail(f32 x) {
  return polynomial(x - 1.25f, 0x1.48050ap1f, 0x1.88ab2ep1f, 0x1.bddad4p-1f, 0x1.0bc598p-5f,
                    -0x1.fe9868p-8f, 0x1.a50a1ep-10f, -0x1.07cbfp-12f, 0x1.6bd7e2p-16f);
}
DEVICE f64 log_of_erf_tail(f64 x) {
  return polynomial(
      x - 1.25, 0x1.48050902770fdp1, 0x1.88ab2d9950137p1, 0x1.bddad46f504f6p-1,
      0x1.0bc5a0297aa52p-5, -0x1.fea76c4b47d6ep-8, 0x1.a540a7455da2dp-10, -0x1.02c592793b23ap-12,
      0x1.50f19fb0c8976p-17, 0x1.6b6b7bc2b79dcp-17, -0x1.5ab68963bb1d3p-18, 0x1.843a26960bb46p-20,
      -0x1.0f3581302374ap-22, 0x1.2ef0d16b88deep-28, 0x1.107ebb15f91d9p-26, -0x1.cdef59f6ed7d4p-28,
      0x1.c50984485e48fp-30, -0x1.1eb511aba17e4p-32, 0x1.b2e8ec3ad2c02p-36, -0x1.2cd80bf20a195p-40);
}
template <class S>
DEVICE S erf_(S x) {
  const S size = magnitude(x);
  const S far = clamped(size, S(1), sizeof(S) == 4 ? S(3.93) : S(5.95));
  const auto by = divided_by_log_2(-log_of_erf_tail(far));
  const S power = power_of_2(by.shifted);
  const S from_1 = 1 - fused(power, expm1_near_0(by.rest), power);
  const S below_1 = erf_near_0(size < 1 ? size : S(1));
  return with_sign_of(x, size < 1 ? below_1 : from_1);
}

// ---- pow ----------------------------------------------------------------------------------------

DEVICE f32 truncated(f32 x) { return __builtin_truncf(x); }
DEVICE f64 truncated(f64 x) { return __builtin_trunc(x); }

/// size^y, by logs in f64, which has all f32 as numbers that are no subnormals.
DEVICE f32 power_of(f32 size, f32 y) {
  const auto by = divided_by_power_of_2(f64(size));
  const f64 log_2 =
      fused(by.f,
            polynomial(by.f, 0x1.71547652a1e99p0, -0x1.715476565d244p-1, 0x1.ec709ebb9409ep-2,
                       -0x1.71547097b6002p-2, 0x1.277651fc44e6dp-2, -0x1.ec72b58d80821p-3,
                       0x1.a63f445b781bdp-3, -0x1.71417199c271fp-3, 0x1.45291a0476026p-3,
                       -0x1.252f318c78f94p-3, 0x1.2871db1c9daeep-3, -0x1.24890543a8007p-3,
                       0x1.3ce8efa918e89p-4),
            by.n);
  const f64 exponent = clamped(f64(y) * log_or_end(f64(size), log_2), -160.0, 160.0);
  constexpr f64 shift = float_parts<f64>::to_integer;
  const f64 shifted = exponent + shift, rest = exponent - (shifted - shift);
  return f32(power_of_2(shifted) * polynomial(rest, 1.0, 0x1.62e430ca43fbdp-1, 0x1.ebfbdd26dd386p-3,
                                              0x1.c6aed1706b33bp-5, 0x1.3b2c9ab11562ep-7,
                                              0x1.5f4719d805af7p-10, 0x1.4278473c2815cp-13));
}

/// A number of twice the digits: value + lost.
struct two_f64 {
  f64 value, lost;
};
/// Dekker's FastTwoSum: exact where |a| is not less than |b|, or a is 0.
DEVICE two_f64 fast_two_sum(f64 a, f64 b) {
  const f64 sum = a + b;
  return {sum, b - (sum - a)};
}
DEVICE two_f64 two_product(f64 a, f64 b) {
  const f64 product = a * b;
  return {product, fused(a, b, -product)};
}
/// size^y, by a log of 65 digits: y moves all its error behind the point.
DEVICE f64 power_of(f64 size, f64 y) {
  const auto by = divided_with_subnormals(size);
  // s = f / (2 + f), log(1 + f) = 2 * s + s * w, w = z * (2 / 3 + z * p(z)), z = s^2
  const two_f64 divisor = fast_two_sum(2, by.f);
  const f64 inverse = 1 / divisor.value, s = by.f * inverse;
  const f64 s_lost = fused(-s, divisor.lost, fused(-s, divisor.value, by.f)) * inverse;
  const two_f64 z = two_product(s, s);
  const f64 z_lost = fused(s + s, s_lost, z.lost);
  const f64 p = polynomial(z.value, 0x1.999999999999fp-2, 0x1.249249248e2d4p-2,
                           0x1.c71c71d843269p-3, 0x1.745d09c3091e4p-3, 0x1.3b18c3ae489e5p-3,
                           0x1.101779dd411c1p-3, 0x1.0885b4a767ecfp-3);
  constexpr f64 third = 0x1.5555555555555p-1, third_lost = 0x1.5555555555555p-55;  // of 2
  const two_f64 z_third = two_product(third, z.value);
  const two_f64 w = fast_two_sum(z_third.value, z.value * z.value * p);
  const f64 w_lost = w.lost + fused(third, z_lost, fused(third_lost, z.value, z_third.lost));
  const two_f64 sw = two_product(s, w.value);
  const f64 sw_lost = fused(s, w_lost, fused(s_lost, w.value, sw.lost));
  const two_f64 log_of_f = fast_two_sum(s + s, sw.value);
  const f64 log_of_f_lost = log_of_f.lost + (s_lost + s_lost + sw_lost);
  const two_f64 log_of_all = fast_two_sum(by.n * 0x1.62e42fefa38p-1, log_of_f.value);
  const two_f64 log = fast_two_sum(
      log_of_all.value, log_of_all.lost + fused(by.n, 0x1.ef35793c7673p-45, log_of_f_lost));

  const two_f64 product = two_product(y, log.value);
  const f64 product_lost = fused(y, log.lost, product.lost);
  const f64 end = log_or_end(size, 0.0);  // infinite or NaN at the ends
  const f64 exponent = end == 0 ? product.value : y * end;
  const auto e = divided_by_log_2(clamped(exponent, -800.0, 800.0));
  const f64 rest = magnitude(exponent) < 800 ? e.rest + product_lost : e.rest;
  return times_power_of_2(exp_near_0(rest), e.n);
}
template <class S>
DEVICE S pow_(S x, S y) {
  const S size = magnitude(x), half = y * S(0.5);
  const S value = power_of(size, y);
  // of a negative x, which -0 is
  const S at_integer = truncated(half) == half ? value : -value;
  const S of_finite = size == 0 ? value : S(infinity - infinity);
  const S elsewhere = size < S(infinity) ? of_finite : value;
  const S of_negative = truncated(y) == y ? at_integer : elsewhere;
  const S result = with_sign_of(x, S(1)) < 0 ? of_negative : value;
  // 1 to any power, and -1 to an infinite one, are 1, and so is anything to the power 0, even NaN.
  const S maybe_1 = magnitude(y) == S(infinity) ? size : x;
  return y == 0 ? S(1) : maybe_1 == 1 ? S(1) : result;
}
#endif
