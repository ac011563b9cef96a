// Prelude, CUDA half: what kernels are written in, for NVRTC. It includes nothing; host.h gives the
// same names for the system C++ compiler. What only needs threads in blocks is in threads.h.

#define DEVICE static __device__ __forceinline__
/// What a kernel does; see host.h.
#define DEVICE_BODY DEVICE
#define DEVICE_MEMBER __device__ __forceinline__
#define INLINED
/// As offsetof, which NVRTC has only under this name.
#define OFFSET_OF(member, ...) __INTADDR__(&static_cast<__VA_ARGS__*>(nullptr)->member)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
/// A function that is called, not copied to each of its many uses.
#define DEVICE_CALL static __device__ __noinline__
/// A member that is a part of a kernel: copied here, as all are; see host.h.
#define DEVICE_PART DEVICE_MEMBER

constexpr int TEAM = 8;  // lanes of a warp that move a line of 128 bytes together

/// Where a kernel runs: block `index` of `count`, thread `thread` of `threads`.
struct Block {
  index_t index, count;
  int thread, threads;
};
DEVICE void block_barrier(const Block&) { __syncthreads(); }
DEVICE bool all_in_block(const Block&, bool ok) { return __syncthreads_and(ok) != 0; }
/// `value` of the thread `step` behind this one in its warp; this one's where the warp ends. It
/// orders nothing.
template <class T>
DEVICE T shuffle_down(const Block&, T value, int step) {
  return T(__shfl_down_sync(0xffffffffu, value, step));
}
/// An array that the threads of a block share, until they use another one.
#define BLOCK_SHARED(block, T, name, count) __shared__ T name[count]
/// The block as if it were the only one, to share out work among its own threads.
DEVICE Block alone(const Block& block) { return Block{0, 1, block.thread, block.threads}; }

/// The argument blocks of the ranks that one launch runs: RANKS_PER_LAUNCH is 1 unless ranks share
/// a GPU and a process.
template <class Args>
struct Launch {
  Args rank[RANKS_PER_LAUNCH];
};

/// Defines the entry point that the launcher starts: blockIdx.y is the rank within the launch.
#define KERNEL_ENTRY(name)                                                       \
  extern "C" __global__ void name(const __grid_constant__ Launch<Args> launch) { \
    const Block block{blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x),      \
                      static_cast<int>(blockDim.x)};                             \
    name##_block(launch.rank[RANKS_PER_LAUNCH == 1 ? 0 : blockIdx.y], block);    \
  }

// ---- bits and math ------------------------------------------------------------------------------

DEVICE u32 bits_of(f32 x) { return __float_as_uint(x); }
DEVICE f32 float_of(u32 x) { return __uint_as_float(x); }

/// A function of the C library; see common.h.
#define LIBRARY(name) name

// ---- floats as integers -------------------------------------------------------------------------

/// x toward zero, within the limits of 32 or 64 bits: what PTX says of cvt, and C++ of no
/// conversion. NaN gives 0 unless one of the types has 64 bits, and then an integer's least.
DEVICE i32 toward_zero(i32, f32 x) {
  i32 value;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(value) : "f"(x));
  return value;
}
DEVICE i32 toward_zero(i32, f64 x) {
  i32 value;
  asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(value) : "d"(x));
  return x == x ? value : 0;
}
DEVICE i64 toward_zero(i64, f32 x) {
  i64 value;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(value) : "f"(x));
  return x == x ? value : 0;
}
DEVICE i64 toward_zero(i64, f64 x) {
  i64 value;
  asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(value) : "d"(x));
  return x == x ? value : 0;
}

/// A float toward zero, within T's limits, and 0 of NaN, in lanes of L.
template <class T, class L, class S>
DEVICE L saturated(S x) {
  if constexpr (sizeof(T) >= 4) {
    return L(toward_zero(T(0), x));
  } else {
    constexpr i32 bottom = limits<T>::bottom, top = limits<T>::top;
    const i32 value = toward_zero(i32(0), x);
    const i32 below = value < top ? value : top;
    return L(below > bottom ? below : bottom);
  }
}

// ---- 16-bit floats: widened to f32 to compute, rounded to nearest even to store -----------------

DEVICE f32 wide(f16 x) {
  f32 value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
DEVICE f32 wide(bf16 x) { return float_of(u32(x.bits) << 16); }

/// Two floats as they are stored, in one word.
DEVICE u32 narrow_pair(f16, f32 low, f32 high) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
DEVICE u32 narrow_pair(bf16, f32 low, f32 high) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

template <>
struct narrow_to<f16> {
  DEVICE f16 from(f32 x) {
    f16 value;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value.bits) : "f"(x));
    return value;
  }
  DEVICE f32 rounded(f32 x) { return wide(from(x)); }
};
template <>
struct narrow_to<bf16> {
  DEVICE bf16 from(f32 x) {
    bf16 value;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(value.bits) : "f"(x));
    return value;
  }
  /// With a zero in the lower half the word is the float: one instruction.
  DEVICE f32 rounded(f32 x) { return float_of(narrow_pair(bf16{}, 0, x)); }
};

// ---- waiting for other ranks --------------------------------------------------------------------

/// Nanoseconds of the device's clock.
DEVICE u64 now() {
  u64 time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// What a function that is called gets of a kernel's arguments: themselves.
template <class T>
DEVICE const T& handed_on(const T& arguments) { return arguments; }

DEVICE void relax(u64, u64) {}

/// Whether blocks can tell how long they wait. It takes registers: of fused AdamW in bf16 on sm_100
/// 94 instead of 72, which leaves room for two blocks of three.
constexpr bool TELLS_WAITS = false;

DEVICE void signal(u64* flag, u64 value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}
DEVICE u64 observe(const u64* flag) {
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

/// Adds to a count that others wait for; what was written before is visible to who sees the sum.
DEVICE void add_release(u64* count, u64 more) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(count), "l"(more) : "memory");
}

/// Adds one to a count of blocks of this launch, and returns what it was. What those wrote that
/// added before is visible after.
DEVICE u64 arrive(u64* count) {
  u64 before;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;"
               : "=l"(before)
               : "l"(count)
               : "memory");
  return before;
}

/// Sets `*word` to `value` if it is zero; whether this call did so. The host sees it.
DEVICE bool claim(u64* word, u64 value) { return atomicCAS_system(word, 0ull, value) == 0; }

/// A word that another rank or thread may write at the same time, which holds its own flag. It
/// orders nothing around it.
DEVICE u64 load_relaxed(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
DEVICE void store_relaxed(u64* to, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
/// One or two such words, the latter aligned to 16 bytes. An access of two is one of each word:
/// they may come one before the other.
DEVICE void load_relaxed(const u64* from, u64 (&to)[1]) { to[0] = load_relaxed(from); }
DEVICE void load_relaxed(const u64* from, u64 (&to)[2]) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(to[0]), "=l"(to[1])
               : "l"(from)
               : "memory");
}
DEVICE void store_relaxed(u64* to, const u64 (&from)[1]) { store_relaxed(to, from[0]); }
DEVICE void store_relaxed(u64* to, const u64 (&from)[2]) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(from[0]), "l"(from[1])
               : "memory");
}

// ---- lines: 128 bytes that a team moves, 16 a lane, the last 8 of which are a flag --------------
// What lanes load or store by one instruction in one line is one access, in this GPU's memory and
// over NVLink. A team's lanes must therefore be together there.

DEVICE u32 team_mask(const Block& block) { return 0xffu << (block.thread % 32 / TEAM * TEAM); }

/// `value` of the team's last lane. It orders nothing.
DEVICE u64 of_last_lane(const Block& block, u64 value) {
  return __shfl_sync(team_mask(block), value, TEAM - 1, TEAM);
}

DEVICE void load_16(const u8* from, u64& low, u64& high) {
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
}
DEVICE void store_16(u8* to, u64 low, u64 high) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high)
               : "memory");
}

/// The lower flag of one or two lines at `lines`, for all lanes of the team, and the lane's words
/// of both: those that belong to the flags where these are at least `tag`.
DEVICE u64 load_lines(const Block& block, const u8* lines, int count, u64, u32* words) {
  const u8* const mine = lines + block.thread % TEAM * 16;
  u64 first[2], second[2];
  __syncwarp(team_mask(block));
  load_16(mine, first[0], first[1]);
  load_16(mine + (count - 1) * 128, second[0], second[1]);
  UNROLL
  for (int half = 0; half < 2; ++half) {
    words[2 * half] = u32(first[half]);
    words[2 * half + 1] = u32(first[half] >> 32);
    words[4 + 2 * half] = u32(second[half]);
    words[4 + 2 * half + 1] = u32(second[half] >> 32);
  }
  const u64 flag = of_last_lane(block, first[1]);
  const u64 other = of_last_lane(block, second[1]);
  return flag < other ? flag : other;
}

/// Stores the team's words to one or two lines, with `tag` as their flags.
DEVICE void store_lines(const Block& block, u8* lines, int count, u64 tag, const u32* words) {
  const int lane = block.thread % TEAM;
  for (int line = 0; line < count; ++line) {
    const u64 low = u64(words[4 * line + 1]) << 32 | words[4 * line];
    const u64 high = lane == TEAM - 1 ? tag : u64(words[4 * line + 3]) << 32 | words[4 * line + 2];
    __syncwarp(team_mask(block));
    store_16(lines + 128 * line + lane * 16, low, high);
  }
}
