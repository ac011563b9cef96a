// Prelude, the beginning: the types of kernels, the same for all targets.

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned char b8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef long long index_t;

/// 16-bit floats are widened to f32 to compute, and rounded to nearest even to store.
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
template <class T>
constexpr bool has_16_bits = false;
template <>
constexpr bool has_16_bits<f16> = true;
template <>
constexpr bool has_16_bits<bf16> = true;

/// A number of lanes as a type, so that one body serves whole vectors and the tail, and whether
/// stores to other ranks go past the caches, which is never so on GPUs.
template <int N, bool STREAM>
struct width {};

/// What a loop of the host is: over vectors, or over elements, of which compilers make vectors
/// themselves; or over elements for clang, and for gcc over vectors, as it makes worse ones of
/// choices and conversions.
enum By { BY_VECTORS, BY_ELEMENTS, BY_EITHER };

/// The floats that kernels compute with.
template <class T>
constexpr bool is_computed_float = false;
template <>
constexpr bool is_computed_float<f32> = true;
template <>
constexpr bool is_computed_float<f64> = true;

/// What T's sums and products are computed in, so that integers wrap around: C++ defines no
/// overflow of i32 and i64, and narrower ones are computed in i32, which has all their results.
template <class T>
struct wrapping {
  typedef T type;
};
template <>
struct wrapping<i32> {
  typedef u32 type;
};
template <>
struct wrapping<i64> {
  typedef u64 type;
};

/// The least and the greatest T; see common.h.
template <class T>
struct limits;

/// How a computed value becomes a stored T; see common.h.
template <class T>
struct narrow_to;

// What a switch between GPUs does; cuda/vectors.h specialises these for all that it can.

/// N elements from a multicast address, reduced over all ranks. `load` follows the address, which
/// is aligned to the elements, or to min(16, N * sizeof(T)) bytes.
template <class Op, int N, class T>
struct switch_total {
  static constexpr bool exists = false;
};
/// BYTES that go to a multicast address, aligned in the same way.
template <int BYTES>
struct switch_copy {
  static constexpr bool exists = false;
};
