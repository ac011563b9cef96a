// Prelude, host half where a block runs as one lane: the fast way. Its vectors are as wide as the
// machine's, and the cores of the rank share out the blocks of a launch.

constexpr int VECTOR_BYTES = HOST_VECTOR_BYTES;
constexpr int TEAM = 1;  // lanes that move a line of 128 bytes together
template <int W, int CELLS>
constexpr int CELL_LANES = W;  // of a loop over cells of the protocol ll
template <int W>
constexpr int LINE_LANES = 30;  // of a loop over lines of the protocol ll128: a whole line

/// Where a kernel runs: block `index` of `count`.
struct Block {
  index_t index, count;
};
DEVICE bool is_leader(const Block&) { return true; }
DEVICE void block_barrier(const Block&) {}
DEVICE bool all_in_block(const Block&, bool ok) { return ok; }
/// The block as if it were the only one, to share out work among its own lanes.
DEVICE Block alone(const Block&) { return Block{0, 1}; }

/// Shares of which totals are counted: as many as `totals` says, whatever the grid.
template <class Shared>
DEVICE index_t shares_in(const Block&, const Shared& totals) { return totals.shares; }
/// Calls f for those of this block, each as if it were a block of its own.
template <class Shared, class F>
DEVICE void for_each_share(const Block& block, const Shared& totals, F f) {
  const index_t end = totals.shares * (block.index + 1) / block.count;
  for (index_t share = totals.shares * block.index / block.count; share < end; ++share)
    f(Block{share, totals.shares});
}

/// The rows of this block: neighbours, since it stores to whole lines.
struct Rows {
  index_t next, end, step;
};
DEVICE Rows rows_of(const Block& block, index_t rows) {
  return {rows * block.index / block.count, rows * (block.index + 1) / block.count, 1};
}

/// Defines the entry point that the launcher calls, for one block at a time.
#define KERNEL_ENTRY(name)                                               \
  extern "C" __attribute__((visibility("default"))) void name(           \
      const Args* args, index_t block_index, index_t block_count) {      \
    const Args local = *args; /* no store of the kernel can change it */ \
    name##_block(local, Block{block_index, block_count});                \
  }

// ---- work ---------------------------------------------------------------------------------------

/// Stores past the caches: for what this processor does not read again, so that fetching its lines
/// first, only to overwrite them, would be waste. `to` is aligned to the vector. Plain stores where
/// the machine has no such thing.
template <int N, class T>
DEVICE void stream(T* to, const vec<N, T>& value) {
  typedef f32 line __attribute__((vector_size(MACHINE_BYTES)));
#if defined(__x86_64__)
  if constexpr (sizeof(value) % sizeof(line) == 0) {
    for (int i = 0; i < int(sizeof(value) / sizeof(line)); ++i) {
      line part;
      __builtin_memcpy(&part, reinterpret_cast<const char*>(&value) + i * sizeof(part),
                       sizeof(part));
      line* const at = reinterpret_cast<line*>(to) + i;
#if defined(__AVX__)
      asm volatile("vmovntps %1, %0" : "=m"(*at) : "v"(part));
#else
      asm volatile("movntps %1, %0" : "=m"(*at) : "x"(part));
#endif
    }
    return;
  }
#endif
  store<N>(to, value);
}

/// Copies `count` elements past the caches, line by line; `from` is as far from the start of a line
/// as `to`, or what it takes to load two vectors.
template <class T>
DEVICE void stream_copy(T* to, const T* from, index_t count) {
  constexpr index_t LINE = VECTOR_BYTES / sizeof(T);
  index_t i = 0;
  for (; i < count && u64(to + i) % VECTOR_BYTES != 0; ++i) to[i] = from[i];
  for (; i + LINE <= count; i += LINE) stream<LINE>(to + i, load<LINE>(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

/// Puts streaming stores before what comes after, which a release store does not.
DEVICE void order_streams(u64 mode) {
#if defined(__x86_64__)
  if (mode & STREAMING) __builtin_ia32_sfence();
#endif
}

/// What a loop over vectors of W lanes takes at once. W are 64 bytes of the widest element, and gcc
/// keeps no more than the machine's vectors in registers.
constexpr int PARTS = VECTOR_BYTES / MACHINE_BYTES;
template <int W>
constexpr int AT_ONCE = W % PARTS == 0 ? W / PARTS : W;

/// Before a loop over vectors: clang would gather the lanes of several.
#if defined(__clang__)
#define VECTOR_BY_VECTOR _Pragma("clang loop vectorize(disable)")
#else
#define VECTOR_BY_VECTOR
#endif

/// Up to N T as the machine's vectors have them, in the vector types of gcc and clang: gcc takes
/// apart loops over lanes of which it needs others than neighbours, and loops that choose.
template <class T, int N = 16>
struct machine {
  static constexpr int lanes = MACHINE_BYTES < N * sizeof(T) ? MACHINE_BYTES / sizeof(T) : N;
  typedef T vector __attribute__((vector_size(lanes * sizeof(T))));

  DEVICE vector load(const T* from) {
    vector value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  DEVICE void store(T* to, const vector& value) { __builtin_memcpy(to, &value, sizeof value); }

  template <class Element>
  struct of {
    typedef Element vector __attribute__((vector_size(lanes * sizeof(Element))));
  };
  /// Elements of another type as lanes of this one.
  template <class Element>
  DEVICE vector converted(const typename of<Element>::vector& elements) {
#if defined(__AVX__) && !defined(__clang__)
    // gcc converts half vectors and puts them together.
    if constexpr (same<T, f64> && same<Element, f32> && lanes == 4) {
      return __builtin_ia32_cvtps2pd256(elements);
    } else
#endif
#if defined(__AVX512F__) && !defined(__clang__)
    if constexpr (same<T, f64> && same<Element, f32> && lanes == 8) {
      constexpr int as_set = 4;  // the rounding, which is none here
      return __builtin_ia32_cvtps2pd512_mask(elements, vector{}, 0xff, as_set);
    } else
#endif
      return __builtin_convertvector(elements, vector);
  }
  template <class Element>
  DEVICE vector load_as(const Element* from) {
    typename of<Element>::vector elements;
    __builtin_memcpy(&elements, from, sizeof elements);
    return converted<Element>(elements);
  }
};

/// COUNT totals as vectors of `part`. Everywhere vectors are a pack, as gcc keeps an array in
/// memory that a loop goes through.
template <class Op, class T, int COUNT, class part>
struct vector_totals {
  static constexpr int VECTORS = COUNT / part::lanes;
  typename part::vector totals[VECTORS];

  template <int... V>
  DEVICE_MEMBER explicit vector_totals(numbers<V...>)
      : totals{((void)V, typename part::vector{} + Op::template identity<T>())...} {}
  DEVICE_MEMBER vector_totals() : vector_totals(typename numbers_to<VECTORS>::type{}) {}

  /// Combines vectors FIRST + V, as a ring, with elements from 0 on.
  template <int FIRST, int N, class Element, int... V>
  DEVICE_MEMBER void add(const vec<N, Element>& elements, numbers<V...>) {
    ((totals[(FIRST + V) % VECTORS] = Op::apply(totals[(FIRST + V) % VECTORS],
                                                part::load_as(elements.lane + V * part::lanes))),
     ...);
  }
};

/// A total for each lane of a loop over vectors of W.
template <class Op, int W, class T>
struct lane_totals {
  typedef machine<T, AT_ONCE<W>> part;
  vector_totals<Op, T, W, part> all;

  /// Combines them with one element each; the element behind those of W lanes goes to the first.
  template <int N, class Element>
  DEVICE_MEMBER void add(const vec<N, Element>& elements) {
    all.template add<0>(elements, typename numbers_to<N / part::lanes>::type{});
    add_rest<N / part::lanes * part::lanes>(elements,
                                            typename numbers_to<N % part::lanes>::type{});
  }
  template <int FIRST, int N, class Element, int... L>
  DEVICE_MEMBER void add_rest(const vec<N, Element>& elements, numbers<L...>) {
    auto& last = all.totals[FIRST % W / part::lanes];
    ((last[L] = Op::apply(T(last[L]), T(elements[FIRST + L]))), ...);
  }

  /// All of them as one, in order.
  DEVICE_MEMBER T fold() const {
    vec<W, T> lanes;
    __builtin_memcpy(&lanes, &all, sizeof lanes);
    T total = lanes[0];
    for (int l = 1; l < W; ++l) total = Op::apply(total, lanes[l]);
    return total;
  }
};

/// Before a loop over elements: compilers make vectors of N of them.
#if defined(__clang__)
#define ELEMENT_BY_ELEMENT \
  _Pragma("clang loop vectorize(assume_safety) vectorize_width(N) interleave(disable)")
constexpr bool goes_by_elements(By by) { return by != BY_VECTORS; }
#else
#define ELEMENT_BY_ELEMENT _Pragma("GCC ivdep")
constexpr bool goes_by_elements(By by) { return by == BY_ELEMENTS; }
#endif

/// Calls f(width<1>, i) for [begin, end) where it goes by elements; else f(width<N>, i) for whole
/// vectors, N being W or a part of it, and f(width<1>, i) for what is left over.
template <int W, By BY, bool STREAM, class F>
DEVICE void call_for_each(index_t begin, index_t end, F f) {
  constexpr int N = AT_ONCE<W>;
  index_t i = begin;
  if constexpr (goes_by_elements(BY)) {
    ELEMENT_BY_ELEMENT
    for (; i < end; ++i) f(width<1, STREAM>{}, i);
  } else {
    VECTOR_BY_VECTOR
    for (; i + N <= end; i += N) f(width<N, STREAM>{}, i);
    for (; i < end; ++i) f(width<1, false>{}, i);
  }
}

/// Elements that a loop leaves in the caches before they go past them to the other ranks: some 4
/// KiB at most, which are in the first cache then, and enough for a loop of vectors to be worth it.
constexpr index_t STREAMED_AT_ONCE = 512;

/// Calls f for [begin, end). Where stores to other ranks go past the caches, f leaves them to
/// `streams`, which is called as streams(i, count) for what f has stored to this rank's own arrays.
/// `order_streams` must follow.
template <int W, By BY = BY_VECTORS, class S, class F>
DEVICE void for_each_of(const Block&, index_t begin, index_t end, u64 mode, S streams, F f) {
  if (mode & STREAMING) {
    for (index_t i = begin; i < end; i += STREAMED_AT_ONCE) {
      const index_t count = end - i < STREAMED_AT_ONCE ? end - i : STREAMED_AT_ONCE;
      call_for_each<W, BY, true>(i, i + count, f);
      streams(i, count);
    }
  } else {
    call_for_each<W, BY, false>(begin, end, f);
  }
}
template <int W, By BY = BY_VECTORS, class F>
DEVICE void for_each_of(const Block& block, index_t begin, index_t end, u64 mode, F f) {
  for_each_of<W, BY>(block, begin, end, mode, [](index_t, index_t) {}, f);
}

struct Range {
  index_t begin, end;
};
/// This block's share of [0, count): a multiple of W, and the last block has what is left over.
DEVICE Range share_of(const Block& block, index_t count, index_t W) {
  const index_t share = (count / W + block.count - 1) / block.count * W;
  const index_t begin = share * block.index < count ? share * block.index : count;
  return {begin,
          block.index + 1 == block.count || begin + share > count ? count : begin + share};
}

/// Fetches the lines of what this block stores to the other ranks' arrays next, as its own: while
/// it waits for totals, and all at a time, where stores would wait for one after the other. Of long
/// arrays they would be gone again by then.
template <int W, int R, class T>
DEVICE void fetch_to_store(const Block& block, T* const (&ranks)[R], index_t at, index_t count,
                           u64 own_rank) {
  constexpr index_t LINE = 64 / sizeof(T);
  constexpr index_t MOST_BYTES = 16384;
  const Range share = share_of(block, count, W);
  if ((share.end - share.begin) * index_t(sizeof(T)) * (R - 1) > MOST_BYTES) return;
  for (int rank = 0; rank < R; ++rank) {
    if (u64(rank) == own_rank) continue;
    for (index_t i = share.begin; i < share.end; i += LINE)
      __builtin_prefetch(ranks[rank] + at + i, 1);
  }
}

/// Calls f for this block's share of [0, count), as `for_each_of` does, streaming stores put before
/// what comes after.
template <int W, By BY = BY_VECTORS, class... F>
DEVICE void for_each(const Block& block, index_t count, u64 mode, F... f) {
  const Range share = share_of(block, count, W);
  for_each_of<W, BY>(block, share.begin, share.end, mode, f...);
  order_streams(mode);
}

/// Calls f(i) for [0, count), shared out among the lanes of the block.
template <class F>
DEVICE void for_each_thread(const Block&, index_t count, F f) {
  for (index_t i = 0; i < count; ++i) f(i);
}

/// A team is the one lane. Vectors may lie anywhere.
DEVICE bool loads_vectors(u64) { return true; }
DEVICE int team_lane(const Block&) { return 0; }
DEVICE u64 of_last_lane(const Block&, u64 value) { return value; }
template <class F>
DEVICE void for_each_team(const Block& block, index_t count, F f) {
  for_each_thread(block, count, f);
}

/// The lanes' totals as one, which all lanes get.
template <class Op, class T>
DEVICE T block_total(const Block&, T total) { return total; }

/// Before a loop over lanes that writes to memory: gcc makes vector code of it if it does not
/// unroll it first, and clang if it does.
#if defined(__clang__)
#define TO_MEMORY
#else
#define TO_MEMORY ROLLED
#endif

/// Before a loop whose turns are each a whole vector: clang would make vectors of several turns,
/// and gather their elements from memory one by one.
#if defined(__clang__)
#define TURN_BY_TURN _Pragma("clang loop vectorize(disable)")
#else
#define TURN_BY_TURN
#endif

/// What `block_reduce` adds to in turn.
constexpr int LANES = 16;

/// Fetches the lines of elements [at, at + LANES).
template <class T>
DEVICE void fetch(const T* at) {
  constexpr int LINE = 64;
  for (int b = 0; b < int(sizeof(T)) * LANES; b += LINE)
    __builtin_prefetch(reinterpret_cast<const char*>(at) + b);
  // gcc 12 drops the call of a function that does nothing but fetch.
  __asm__ volatile("" : : "r"(at));
}
/// Fetches what a loop over long arrays reads soon after `at`. A processor begins late with each
/// page, which a loop over few arrays does not hide: on Zen 3, 2^24 f32, two ranks, it saves a
/// tenth of AdamW with clipping, whose first loop is over gradients alone, and as much of SGD.
template <class T>
DEVICE void fetch_ahead(const T* at) {
  fetch(at + BYTES_AHEAD / index_t(sizeof(T)));
}

/// Reduces elements [begin, end) with Op, in an order that depends on their number alone; all lanes
/// get the result. f(width<N>, i) is elements [i, i + N), one by one where W is 1.
template <int W, class Op, class T, class F>
DEVICE T block_reduce(const Block&, index_t begin, index_t end, u64, F f) {
  constexpr int N = AT_ONCE<W> < LANES ? AT_ONCE<W> : LANES;
  T partial[LANES];
  for (int l = 0; l < LANES; ++l) partial[l] = Op::template identity<T>();
  index_t i = begin;
  TURN_BY_TURN
  for (; i + LANES <= end; i += LANES) {
    for (int v = 0; v < LANES; v += N) {
      const auto values = f(width<N, false>{}, i + v);
      TO_MEMORY
      for (int l = 0; l < N; ++l) partial[v + l] = Op::apply(partial[v + l], T(values[l]));
    }
  }
  for (int l = 0; i + l < end; ++l)
    partial[l] = Op::apply(partial[l], T(f(width<1, false>{}, i + l)[0]));
  for (int step = LANES / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) partial[l] = Op::apply(partial[l], partial[l + step]);
  }
  return partial[0];
}

// ---- waiting for other ranks --------------------------------------------------------------------

/// Lets others run between two looks at a flag: a pause at first, the processor after `spin_limit`
/// looks.
DEVICE void relax(u64 looks, u64 spin_limit) {
  if (looks >= spin_limit) {
    sched_yield();
  } else {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

// ---- lines: 120 bytes of data and a flag --------------------------------------------------------

/// The lower flag of one or two lines at `lines`, and the words of both where it is at least `tag`.
DEVICE u64 load_lines(const Block&, const u8* lines, int count, u64 tag, u32* words) {
  const u64 flag = observe(reinterpret_cast<const u64*>(lines + 120));
  const u64 other = observe(reinterpret_cast<const u64*>(lines + 128 * count - 8));
  const u64 found = flag < other ? flag : other;
  if (found < tag) return found;
  for (int line = 0; line < count; ++line)
    __builtin_memcpy(words + 32 * line, lines + 128 * line, 120);
  return found;
}

/// Stores words to one or two lines, with `tag` as their flags.
DEVICE void store_lines(const Block&, u8* lines, int count, u64 tag, const u32* words) {
  for (int line = 0; line < count; ++line) {
    __builtin_memcpy(lines + 128 * line, words + 32 * line, 120);
    signal(reinterpret_cast<u64*>(lines + 128 * line + 120), tag);
  }
}
