// Prelude, host half: vectors of elements. The switch adds vectors up between GPUs, where there is
// one.

// ---- vectors ------------------------------------------------------------------------------------

/// Of the machine's vectors. gcc takes longer ones apart into single lanes.
#if defined(__AVX512F__)
constexpr int MACHINE_BYTES = 64;
#elif defined(__AVX__)
constexpr int MACHINE_BYTES = 32;
#else
constexpr int MACHINE_BYTES = 16;
#endif

/// N elements that a lane loads, computes and stores together.
template <int N, class T>
struct vec {
  T lane[N];
  DEVICE_MEMBER T& operator[](int i) { return lane[i]; }
  DEVICE_MEMBER const T& operator[](int i) const { return lane[i]; }
};

/// A copy. Of 32 bytes, gcc takes 16 at a time where no vector is meant, and a vector that is
/// loaded from where two halves were just stored has to wait for both.
template <int BYTES>
DEVICE void copy_bytes(void* to, const void* from) {
  if constexpr (MACHINE_BYTES == 32 && BYTES % MACHINE_BYTES == 0) {
    typedef char line __attribute__((vector_size(MACHINE_BYTES)));
    for (int i = 0; i < BYTES; i += MACHINE_BYTES) {
      line part;
      __builtin_memcpy(&part, static_cast<const char*>(from) + i, sizeof part);
      __builtin_memcpy(static_cast<char*>(to) + i, &part, sizeof part);
    }
  } else {
    __builtin_memcpy(to, from, BYTES);
  }
}

template <int N, class T>
DEVICE vec<N, T> load(const T* from) {
  vec<N, T> value;
  copy_bytes<sizeof(value)>(&value, from);
  return value;
}

template <int N, class T>
DEVICE void store(T* to, const vec<N, T>& value) {
  copy_bytes<sizeof(value)>(to, &value);
}

/// Of several of the machine's vectors, gcc makes single lanes here and there when it has unrolled
/// the loop: an update of Adam with AVX2 took 2.5 times as long.
template <int N, class F>
DEVICE void lanes(F f) {
#if !defined(__clang__) && !defined(__AVX512F__)
  ROLLED
#endif
  for (int l = 0; l < N; ++l) f(l);
}

/// `lanes` of an f that chooses between values. gcc makes branches of choices in a loop that it has
/// unrolled, and vectors of those in one that it has not, but slower ones of all else.
template <int N, class F>
DEVICE void choosing_lanes(F f) {
#if !defined(__clang__)
  ROLLED
#endif
  for (int l = 0; l < N; ++l) f(l);
}

// Whole vectors of other widths than the kernel's lanes, in the vector types of gcc and clang: gcc
// takes loops apart that have lanes of two widths.

constexpr bool is_power_of_2(int n) { return n > 1 && (n & (n - 1)) == 0; }

constexpr int NATIVE_LANES = MACHINE_BYTES / 4;  // of f32

/// Fills `to` with what f makes of `from`, a vector of the machine at a time.
template <int N, class From, class To, class F>
DEVICE void in_native_vectors(const vec<N, From>& from, vec<N, To>& to, F f) {
  for (int i = 0; i < N; i += NATIVE_LANES)
    store(to.lane + i, f(load<NATIVE_LANES>(from.lane + i)));
}

template <int N>
struct lanes_of {
  typedef u32 wide __attribute__((vector_size(4 * N)));
  typedef f32 floats __attribute__((vector_size(4 * N)));
  typedef unsigned short narrow __attribute__((vector_size(2 * N)));
};

/// The f32 of `x`'s lanes as bf16, in the upper halves.
template <int N>
DEVICE typename lanes_of<N>::wide rounded_bits(typename lanes_of<N>::wide x) {
  const auto value = (typename lanes_of<N>::floats)x;
  return value != value ? x | 0x400000u : x + 0x7fffu + (x >> 16 & 1u);
}

/// `x`'s lanes as they are stored, in the lower halves.
template <int N>
DEVICE typename lanes_of<N>::wide narrow_bits(f16, typename lanes_of<N>::wide x) {
  typedef typename lanes_of<N>::wide wide;
  typedef typename lanes_of<N>::floats floats;
  const wide sign = x >> 16 & 0x8000u;
  const wide magnitude = x & 0x7fffffffu;
  const wide normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1u)) >> 13;
  const wide subnormal = (wide)((floats)magnitude + 0.5f) - 0x3f000000u;
  const wide zeros = {};
#if defined(__AVX512F__)
  if constexpr (N == 16) {  // the processor's own, but for the bits of NaN
    typedef short halves __attribute__((vector_size(32)));
    const halves nearest = __builtin_ia32_vcvtps2ph512_mask((floats)x, 0, halves{}, 0xffff);
    const wide rounded = __builtin_convertvector((typename lanes_of<N>::narrow)nearest, wide);
    return magnitude > 0x7f800000u ? sign | 0x7e00u : rounded;
  }
#endif
  const wide special = magnitude > 0x7f800000u ? zeros + 0x7e00u : zeros + 0x7c00u;
  const wide finite = magnitude < 0x38800000u ? subnormal : normal;
  return sign | (magnitude >= 0x477ff000u ? special : finite);
}
template <int N>
DEVICE typename lanes_of<N>::wide narrow_bits(bf16, typename lanes_of<N>::wide x) {
  return rounded_bits<N>(x) >> 16;
}

/// The f32 of lanes as they are stored.
template <int N>
DEVICE typename lanes_of<N>::wide wide_bits(f16, typename lanes_of<N>::wide x) {
  typedef typename lanes_of<N>::wide wide;
  typedef typename lanes_of<N>::floats floats;
  const wide magnitude = (x & 0x7fffu) << 13;
  const wide scaled = (wide)((floats)magnitude * float_of(0x77800000u));
  const wide zeros = {};
  const wide special = magnitude >= 0x0f800000u ? zeros + 0x7f800000u : zeros;
  return scaled | special | (x & 0x8000u) << 16;
}
template <int N>
DEVICE typename lanes_of<N>::wide wide_bits(bf16, typename lanes_of<N>::wide x) {
  return x << 16;
}

template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;

/// A list of numbers 0, 1 ... N - 1.
template <int... I>
struct numbers {};
template <int N, int... I>
struct numbers_to : numbers_to<N - 1, N - 1, I...> {};
template <int... I>
struct numbers_to<0, I...> {
  typedef numbers<I...> type;
};

/// Whether 16-bit floats are converted by whole vectors of the machine. gcc keeps them in registers
/// where no half goes through memory, but before AVX2 x86 has no instructions that it moves their
/// lanes with.
#if defined(__AVX2__) && defined(__F16C__)
constexpr bool IN_VECTORS = true;
#else
constexpr bool IN_VECTORS = false;
#endif

/// A vector of f32, as its bits, and as many 16-bit floats, which are half a vector.
struct half_vector {
  static constexpr int N = NATIVE_LANES;
  typedef typename lanes_of<N>::wide wide;
  typedef typename lanes_of<N>::floats floats;
  typedef typename lanes_of<N>::narrow half;
  typedef short signed_half __attribute__((vector_size(2 * N)));
  typedef i32 signed_wide __attribute__((vector_size(4 * N)));

  DEVICE wide widened(f16, half bits) {
#if defined(__AVX512F__)
    constexpr int as_set = 4;  // the rounding, which is none here
    return opaque((wide)__builtin_ia32_vcvtph2ps512_mask((signed_half)bits, floats{}, 0xffff,
                                                        as_set));
#elif defined(__F16C__) && defined(__AVX2__)
    return opaque((wide)__builtin_ia32_vcvtph2ps256((signed_half)bits));
#else
    return wide_bits<N>(f16{}, __builtin_convertvector(bits, wide));
#endif
  }
  /// `x`, of which a compiler does not see how it was made or what becomes of it: clang takes a
  /// lane of a conversion as the conversion of a lane, and then never finds back to vectors.
  DEVICE wide opaque(wide x) {
#if defined(__clang__) && defined(__x86_64__)
    __asm__("" : "+v"(x));
#endif
    return x;
  }
  DEVICE wide widened(bf16, half bits) {
    // gcc converts half of them at a time and puts them together.
#if defined(__AVX512F__) && !defined(__clang__)
    return (wide)__builtin_ia32_pmovzxwd512_mask((signed_half)bits, signed_wide{}, 0xffff) << 16;
#elif defined(__AVX2__) && !defined(__clang__)
    return (wide)__builtin_ia32_pmovzxwd256((signed_half)bits) << 16;
#else
    return opaque(__builtin_convertvector(bits, wide) << 16);
#endif
  }
  /// EXACT says that nothing is to be rounded.
  template <bool EXACT, class T>
  DEVICE half narrowed(T, wide x) {
#if defined(__AVX512F__)
    if constexpr (EXACT && same<T, f16>)
      return (half)__builtin_ia32_vcvtps2ph512_mask((floats)x, 0, signed_half{}, 0xffff);
#elif defined(__F16C__) && defined(__AVX2__)
    if constexpr (EXACT && same<T, f16>) return (half)__builtin_ia32_vcvtps2ph256((floats)x, 0);
#endif
    if constexpr (EXACT && same<T, bf16>) return __builtin_convertvector(x >> 16, half);
    return __builtin_convertvector(narrow_bits<N>(T{}, x), half);
  }
};

/// Two vectors of f32, and as many 16-bit floats, which are one.
template <class T>
struct whole_vector : half_vector {
  typedef typename lanes_of<2 * N>::narrow whole;
  typedef typename numbers_to<N>::type of_half;
  typedef typename numbers_to<2 * N>::type of_whole;

  template <int FIRST, int... I>
  DEVICE wide widened(whole bits, numbers<I...>) {
    return half_vector::widened(T{}, __builtin_shufflevector(bits, bits, (FIRST + I)...));
  }
  template <bool EXACT, int... I>
  DEVICE whole narrowed(wide low, wide high, numbers<I...>) {
    return __builtin_shufflevector(half_vector::narrowed<EXACT>(T{}, low),
                                   half_vector::narrowed<EXACT>(T{}, high), I...);
  }
};
/// A bf16 is the upper half of its f32, wherever that lies.
template <>
struct whole_vector<bf16> : half_vector {
  typedef typename lanes_of<2 * N>::narrow whole;
  typedef typename numbers_to<2 * N>::type of_half, of_whole;

  template <int FIRST, int... I>
  DEVICE wide widened(whole bits, numbers<I...>) {
    return half_vector::opaque(
        (wide)__builtin_shufflevector(whole{}, bits, (I % 2 == 0 ? 0 : 2 * N + FIRST + I / 2)...));
  }
  template <bool EXACT, int... I>
  DEVICE whole narrowed(wide low, wide high, numbers<I...>) {
    if constexpr (!EXACT) {
      low = rounded_bits<N>(low);
      high = rounded_bits<N>(high);
    }
    return __builtin_shufflevector((whole)low, (whole)high, (2 * I + 1)...);
  }
};

/// Elements as they are computed with.
template <int N, class T>
  requires has_16_bits<T>
DEVICE vec<N, f32> widened(const vec<N, T>& stored) {
  vec<N, f32> value;
  if constexpr (IN_VECTORS && N == 2 * NATIVE_LANES) {
    typedef whole_vector<T> vectors;
    typename vectors::whole bits;
    __builtin_memcpy(&bits, &stored, sizeof bits);
    const auto low = vectors::template widened<0>(bits, typename vectors::of_half{});
    const auto high = vectors::template widened<NATIVE_LANES>(bits, typename vectors::of_half{});
    __builtin_memcpy(value.lane, &low, sizeof low);
    __builtin_memcpy(value.lane + NATIVE_LANES, &high, sizeof high);
  } else if constexpr (IN_VECTORS && N == NATIVE_LANES) {
    half_vector::half bits;
    __builtin_memcpy(&bits, &stored, sizeof bits);
    const auto wider = half_vector::widened(T{}, bits);
    __builtin_memcpy(&value, &wider, sizeof wider);
  } else if constexpr (N > NATIVE_LANES && N % NATIVE_LANES == 0) {
    in_native_vectors(stored, value, [](const auto& part) { return widened(part); });
  } else if constexpr (is_power_of_2(N)) {
    typename lanes_of<N>::narrow bits;
    __builtin_memcpy(&bits, &stored, sizeof bits);
    const auto wider = wide_bits<N>(T{}, __builtin_convertvector(bits, typename lanes_of<N>::wide));
    __builtin_memcpy(&value, &wider, sizeof wider);
  } else {
    lanes<N>([&](int l) { value[l] = wide(stored[l]); });
  }
  return value;
}

/// Elements as they are stored; EXACT says that they are so already, and need no rounding.
template <class T, bool EXACT = false, int N>
  requires has_16_bits<T>
DEVICE vec<N, T> narrowed(const vec<N, f32>& value) {
  vec<N, T> stored;
  if constexpr (IN_VECTORS && N == 2 * NATIVE_LANES) {
    typedef whole_vector<T> vectors;
    typename vectors::wide low, high;
    __builtin_memcpy(&low, value.lane, sizeof low);
    __builtin_memcpy(&high, value.lane + NATIVE_LANES, sizeof high);
    const auto bits = vectors::template narrowed<EXACT>(
        half_vector::opaque(low), half_vector::opaque(high), typename vectors::of_whole{});
    __builtin_memcpy(&stored, &bits, sizeof bits);
  } else if constexpr (IN_VECTORS && N == NATIVE_LANES) {
    half_vector::wide bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const auto narrower = half_vector::narrowed<EXACT>(T{}, half_vector::opaque(bits));
    __builtin_memcpy(&stored, &narrower, sizeof narrower);
  } else if constexpr (N > NATIVE_LANES && N % NATIVE_LANES == 0) {
    in_native_vectors(value, stored, [](const auto& part) { return narrowed<T, EXACT>(part); });
  } else if constexpr (is_power_of_2(N)) {
    typename lanes_of<N>::wide bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    const auto narrower =
        __builtin_convertvector(narrow_bits<N>(T{}, bits), typename lanes_of<N>::narrow);
    __builtin_memcpy(&stored, &narrower, sizeof narrower);
  } else {
    lanes<N>([&](int l) { stored[l] = narrow_to<T>::from(value[l]); });
  }
  return stored;
}

template <class T, int N>
  requires has_16_bits<T>
DEVICE vec<N, T> narrowed_exactly(const vec<N, f32>& value) {
  return narrowed<T, true>(value);
}

/// An integer type of `BYTES`.
template <int BYTES>
struct integer_of {
  typedef i64 type;
};
template <>
struct integer_of<2> {
  typedef short type;
};
template <>
struct integer_of<4> {
  typedef i32 type;
};

/// Two vectors of the machine with integers as those of half their length, which are one.
template <class To, class From, int... I>
DEVICE void halve(const From* from, To* to, numbers<I...>) {
  constexpr int HALF = MACHINE_BYTES / int(sizeof(From));
  typedef From wide __attribute__((vector_size(MACHINE_BYTES)));
  typedef To narrow __attribute__((vector_size(MACHINE_BYTES / 2)));
  wide low, high;
  __builtin_memcpy(&low, from, sizeof low);
  __builtin_memcpy(&high, from + HALF, sizeof high);
  const auto whole = __builtin_shufflevector(__builtin_convertvector(low, narrow),
                                             __builtin_convertvector(high, narrow), I...);
  __builtin_memcpy(to, &whole, sizeof whole);
}

/// Integers as those of another type, each of which it has. gcc knows vector instructions for one
/// doubling or halving at a time. Where halves were stored apart, a vector that is loaded from
/// there would have to wait for both.
template <class To, int N, class From>
DEVICE vec<N, To> converted(const vec<N, From>& from) {
  constexpr int widest = sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From);
  constexpr int PART = MACHINE_BYTES / widest;
  vec<N, To> to;
  if constexpr (IN_VECTORS && sizeof(To) < sizeof(From) && N % (2 * PART) == 0) {
    if constexpr (2 * sizeof(To) == sizeof(From)) {
      for (int i = 0; i < N; i += 2 * PART)
        halve(from.lane + i, to.lane + i, typename numbers_to<2 * PART>::type{});
    } else {
      vec<N, typename integer_of<sizeof(From) / 2>::type> half;
      for (int i = 0; i < N; i += 2 * PART)
        halve(from.lane + i, half.lane + i, typename numbers_to<2 * PART>::type{});
      to = converted<To>(half);
    }
  } else if constexpr (N > PART && N % PART == 0) {
    for (int i = 0; i < N; i += PART) store(to.lane + i, converted<To>(load<PART>(from.lane + i)));
  } else if constexpr (!is_power_of_2(N)) {
    lanes<N>([&](int l) { to[l] = To(from[l]); });
  } else if constexpr (sizeof(To) > 2 * sizeof(From)) {
    to = converted<To>(converted<typename integer_of<2 * sizeof(From)>::type>(from));
  } else if constexpr (2 * sizeof(To) < sizeof(From)) {
    to = converted<To>(converted<typename integer_of<sizeof(From) / 2>::type>(from));
  } else {
    typedef From in __attribute__((vector_size(N * sizeof(From))));
    typedef To out __attribute__((vector_size(N * sizeof(To))));
    in whole;
    __builtin_memcpy(&whole, &from, sizeof whole);
    const out result = __builtin_convertvector(whole, out);
    __builtin_memcpy(&to, &result, sizeof result);
  }
  return to;
}

// ---- the switch between GPUs, of which there is none here ---------------------------------------

DEVICE void order_multicast() {}
