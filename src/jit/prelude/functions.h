// Prelude, functions. Where host/math.h has none, they are the C library's.

#if !defined(HAS_OWN_MATH)
/// `lanes` of an f that calls functions.
template <int N, class F>
DEVICE void function_lanes(F f) {
  choosing_lanes<N>(f);
}

#define COCONET_MATH(name)                                  \
  DEVICE f32 name##_(f32 x) { return LIBRARY(name##f)(x); } \
  DEVICE f64 name##_(f64 x) { return LIBRARY(name)(x); }
COCONET_MATH(exp)
COCONET_MATH(expm1)
COCONET_MATH(log)
COCONET_MATH(log1p)
COCONET_MATH(sin)
COCONET_MATH(cos)
COCONET_MATH(tanh)
COCONET_MATH(erf)
#undef COCONET_MATH
DEVICE f32 pow_(f32 x, f32 y) { return LIBRARY(powf)(x, y); }
DEVICE f64 pow_(f64 x, f64 y) { return LIBRARY(pow)(x, y); }

struct sine {
  template <class S>
  DEVICE_MEMBER S operator()(S x) const {
    return sin_(x);
  }
};
struct cosine {
  template <class S>
  DEVICE_MEMBER S operator()(S x) const {
    return cos_(x);
  }
};
/// `lanes` of an f that is handed its sin_ and cos_.
template <int N, int BYTES, class F>
DEVICE void wave_lanes(F f) {
  choosing_lanes<N>([&](int l) { f(l, sine{}, cosine{}); });
}
#endif

DEVICE f32 gelu_(f32 x) { return 0.5f * x * (1 + erf_(x * 0.70710678118654752f)); }
DEVICE f64 gelu_(f64 x) { return 0.5 * x * (1 + erf_(x * 0.70710678118654752440)); }

/// x to the power N, by products.
template <int N, class S>
DEVICE S power_(S x) {
  if constexpr (N < 0) {
    return power_<-N>(1 / x);
  } else if constexpr (N == 1) {
    return x;
  } else if constexpr (N % 2 != 0) {
    return power_<N - 1>(x) * x;
  } else {
    const S root = power_<N / 2>(x);
    return root * root;
  }
}
/// x to the power 1 / 2, which is infinite of -infinity and no -0, as the square root is not.
template <class S>
DEVICE S root_(S x) {
  return x == S(-infinity) ? S(infinity) : sqrt_(x + S(0));
}
