// Prelude, CUDA half: vectors of elements, and the switch that adds them up between GPUs.

// ---- vectors ------------------------------------------------------------------------------------

/// N elements that a lane loads, computes and stores together, in accesses of at most 16 bytes.
template <int N, class T>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) vec {
  T lane[N];
  DEVICE_MEMBER T& operator[](int i) { return lane[i]; }
  DEVICE_MEMBER const T& operator[](int i) const { return lane[i]; }
};

/// The widest access that moves part of a vector of `bytes`.
template <int bytes>
struct access {
  typedef int4 type;
};
template <>
struct access<8> {
  typedef int2 type;
};
template <>
struct access<4> {
  typedef int type;
};
template <>
struct access<2> {
  typedef short type;
};
template <>
struct access<1> {
  typedef char type;
};

template <int N, class T>
DEVICE vec<N, T> load(const T* from) {
  typedef typename access<sizeof(vec<N, T>)>::type part;
  vec<N, T> value;
  UNROLL
  for (int i = 0; i < int(sizeof(value) / sizeof(part)); ++i) {
    reinterpret_cast<part*>(&value)[i] = reinterpret_cast<const part*>(from)[i];
  }
  return value;
}

/// Written as one instruction where it is wider than a word: NVRTC takes the stores of int4 and
/// int2 apart where addresses are sums.
template <class Part>
DEVICE void store_part(Part* to, const Part& part) {
  *to = part;
}
DEVICE void store_part(int4* to, const int4& part) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(part.x), "r"(part.y),
               "r"(part.z), "r"(part.w)
               : "memory");
}
DEVICE void store_part(int2* to, const int2& part) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(part.x), "r"(part.y) : "memory");
}

template <int N, class T>
DEVICE void store(T* to, const vec<N, T>& value) {
  typedef typename access<sizeof(vec<N, T>)>::type part;
  UNROLL
  for (int i = 0; i < int(sizeof(value) / sizeof(part)); ++i)
    store_part(reinterpret_cast<part*>(to) + i, reinterpret_cast<const part*>(&value)[i]);
}

template <int N, class F>
DEVICE void lanes(F f) {
  UNROLL
  for (int l = 0; l < N; ++l) f(l);
}

/// `lanes` where f chooses between values.
template <int N, class F>
DEVICE void choosing_lanes(F f) {
  lanes<N>(f);
}

/// Integers as those of another type, each of which it has.
template <class To, int N, class From>
DEVICE vec<N, To> converted(const vec<N, From>& from) {
  vec<N, To> to;
  lanes<N>([&](int l) { to[l] = To(from[l]); });
  return to;
}

/// Elements as they are stored: made as words, which NVRTC stores together. Of halves it makes
/// stores of 4 bytes.
template <class T, int N>
  requires(has_16_bits<T> && N % 2 == 0)
DEVICE vec<N, T> narrowed(const vec<N, f32>& value) {
  vec<N, T> stored;
  UNROLL
  for (int l = 0; l < N; l += 2)
    reinterpret_cast<u32*>(&stored)[l / 2] = narrow_pair(T{}, value[l], value[l + 1]);
  return stored;
}

// ---- the switch between GPUs --------------------------------------------------------------------
// PTX's multimem, of sm_90 and CUDA 12.1 on. What is no specialisation below is left to the ranks:
// products, 8 bits, max and min of floats, whose NaN a switch need not keep, and accesses of less
// than 4 bytes.

struct sum_of;
struct max_of;
struct min_of;

#if __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ >= 1)

#define COCONET_LOAD_TOTAL(T, add, type)                                                       \
  DEVICE void load_total(const T* from, u32 (&to)[1]) {                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." add "." type " %0, [%1];"            \
                 : "=r"(to[0]) : "l"(from) : "memory");                                        \
  }                                                                                            \
  DEVICE void load_total(const T* from, u32 (&to)[2]) {                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." add ".v2." type " {%0, %1}, [%2];"   \
                 : "=r"(to[0]), "=r"(to[1]) : "l"(from) : "memory");                           \
  }                                                                                            \
  DEVICE void load_total(const T* from, u32 (&to)[4]) {                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." add ".v4." type                      \
                 " {%0, %1, %2, %3}, [%4];"                                                    \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(from) : "memory"); \
  }
COCONET_LOAD_TOTAL(f32, "add", "f32")
COCONET_LOAD_TOTAL(f16, "add.acc::f32", "f16x2")
COCONET_LOAD_TOTAL(bf16, "add.acc::f32", "bf16x2")
#undef COCONET_LOAD_TOTAL

/// Whether `bytes` are one access of the switch, or several of 16 bytes.
constexpr bool are_accesses(int bytes) {
  return bytes == 4 || bytes == 8 || (bytes > 0 && bytes % 16 == 0);
}

/// Sums of floats that lie in words of 4 bytes.
template <int N, class T>
struct switch_sum {
  static constexpr int words = N * sizeof(T) / 4, at_once = words < 4 ? words : 4;
  static constexpr bool exists = are_accesses(N * sizeof(T));
  DEVICE vec<N, T> load(const T* from) {
    vec<N, T> total;
    UNROLL
    for (int word = 0; word < words; word += at_once) {
      load_total(from + word * 4 / int(sizeof(T)),
                 *reinterpret_cast<u32(*)[at_once]>(reinterpret_cast<u32*>(&total) + word));
    }
    return total;
  }
};
template <int N>
struct switch_total<sum_of, N, f32> : switch_sum<N, f32> {};
template <int N>
struct switch_total<sum_of, N, f16> : switch_sum<N, f16> {};
template <int N>
struct switch_total<sum_of, N, bf16> : switch_sum<N, bf16> {};

#define COCONET_SWITCH_TOTAL(Op, T, name, constraint)                           \
  template <int N>                                                              \
  struct switch_total<Op, N, T> {                                               \
    static constexpr bool exists = true;                                        \
    DEVICE vec<N, T> load(const T* from) {                                      \
      vec<N, T> total;                                                          \
      UNROLL                                                                    \
      for (int l = 0; l < N; ++l) {                                             \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." name " %0, [%1];" \
                     : constraint(total[l]) : "l"(from + l) : "memory");        \
      }                                                                         \
      return total;                                                             \
    }                                                                           \
  };
COCONET_SWITCH_TOTAL(sum_of, f64, "add.f64", "=d")
COCONET_SWITCH_TOTAL(sum_of, i32, "add.s32", "=r")
COCONET_SWITCH_TOTAL(max_of, i32, "max.s32", "=r")
COCONET_SWITCH_TOTAL(min_of, i32, "min.s32", "=r")
COCONET_SWITCH_TOTAL(sum_of, i64, "add.u64", "=l")
COCONET_SWITCH_TOTAL(max_of, i64, "max.s64", "=l")
COCONET_SWITCH_TOTAL(min_of, i64, "min.s64", "=l")
#undef COCONET_SWITCH_TOTAL

DEVICE void copy_to_all(void* to, const u32 (&from)[1]) {
  asm volatile("multimem.st.relaxed.sys.global.b32 [%0], %1;" ::"l"(to), "r"(from[0]) : "memory");
}
DEVICE void copy_to_all(void* to, const u32 (&from)[2]) {
  asm volatile("multimem.st.relaxed.sys.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "r"(from[0]),
               "r"(from[1])
               : "memory");
}
DEVICE void copy_to_all(void* to, const u32 (&from)[4]) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
template <int BYTES>
  requires(are_accesses(BYTES))
struct switch_copy<BYTES> {
  static constexpr bool exists = true;
  DEVICE void store(void* to, const void* from) {
    constexpr int words = BYTES / 4, at_once = words < 4 ? words : 4;
    UNROLL
    for (int word = 0; word < words; word += at_once) {
      copy_to_all(static_cast<u32*>(to) + word,
                  *reinterpret_cast<const u32(*)[at_once]>(static_cast<const u32*>(from) + word));
    }
  }
};

#endif

/// Puts accesses of memory by its own addresses and by multicast ones in order, which barriers
/// alone do not: to PTX both are ways of their own to the same memory, and a fence is needed along
/// the way by which one access comes before the other, in whichever thread.
DEVICE void order_multicast() { asm volatile("fence.proxy.alias;" ::: "memory"); }
