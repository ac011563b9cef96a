// Prelude, what the halves share whose blocks are threads: GPUs', and the host's that looks for
// races. Which thread touches which element is the same text for both.

constexpr int VECTOR_BYTES = GPU_VECTOR_BYTES;

DEVICE bool is_leader(const Block& block) { return block.thread == 0; }

/// Shares of which totals are counted: every block's work is one.
template <class Shared>
DEVICE index_t shares_in(const Block& block, const Shared&) { return block.count; }
template <class Shared, class F>
DEVICE void for_each_share(const Block& block, const Shared&, F f) { f(block); }

/// The rows of this block, one of every `count` neighbours.
struct Rows {
  index_t next, end, step;
};
DEVICE Rows rows_of(const Block& block, index_t rows) { return {block.index, rows, block.count}; }

/// A plain store: on a GPU it fetches nothing, and a race is looked for in stores that a sanitizer
/// sees.
template <int N, class T>
DEVICE void stream(T* to, const vec<N, T>& value) {
  store<N>(to, value);
}

template <class T>
DEVICE void stream_copy(T*, const T*, index_t) {}

/// Stores are in order as they are.
DEVICE void order_streams(u64) {}

/// Calls f(width<W>, i) for whole vectors of [begin, end) and f(width<1>, i) for what is left over,
/// strided over the grid.
template <int W, By = BY_VECTORS, class F>
DEVICE void for_each_of(const Block& block, index_t begin, index_t end, u64 mode, F f) {
  const index_t bulk = mode & VECTORIZE ? begin + (end - begin) / W * W : begin;
  const index_t first = block.index * block.threads + block.thread;
  const index_t step = block.count * block.threads;
  for (index_t i = begin + first * W; i < bulk; i += step * W) f(width<W, false>{}, i);
  for (index_t i = bulk + first; i < end; i += step) f(width<1, false>{}, i);
}

/// Nothing goes past the caches.
template <int W, By BY = BY_VECTORS, class S, class F>
DEVICE void for_each_of(const Block& block, index_t begin, index_t end, u64 mode, S, F f) {
  for_each_of<W, BY>(block, begin, end, mode, f);
}

/// On the host, lines are fetched that will be stored to. A GPU's stores wait for none.
template <int W, int R, class T>
DEVICE void fetch_to_store(const Block&, T* const (&)[R], index_t, index_t, u64) {}

/// Nor are lines of rows fetched ahead: a GPU has other warps to run while one waits.
template <class T>
DEVICE void fetch(const T*) {}
template <class T>
DEVICE void fetch_ahead(const T*) {}

/// Calls f for the vectors of [0, count), as `for_each_of` does.
template <int W, By BY = BY_VECTORS, class... F>
DEVICE void for_each(const Block& block, index_t count, u64 mode, F... f) {
  for_each_of<W, BY>(block, 0, count, mode, f...);
}

/// Calls f(i) for [0, count), strided over the threads of the block.
template <class F>
DEVICE void for_each_thread(const Block& block, index_t count, F f) {
  ROLLED
  for (index_t i = block.thread; i < count; i += block.threads) f(i);
}

/// Two totals for the lanes of a loop over vectors of W. An f64 takes two registers of a thread:
/// with one for each of eight lanes a block fewer of fused LAMB fits on a multiprocessor.
template <class Op, int W, class T>
struct lane_totals {
  static constexpr int COUNT = W < 2 ? W : 2;
  vec<COUNT, T> all;

  DEVICE_MEMBER lane_totals() {
    lanes<COUNT>([&](int l) { all[l] = Op::template identity<T>(); });
  }

  /// Combines them with one element each, those of N lanes in turn.
  template <int N, class Element>
  DEVICE_MEMBER void add(const vec<N, Element>& elements) {
    lanes<N>([&](int l) { all[l % COUNT] = Op::apply(all[l % COUNT], T(elements[l])); });
  }

  /// All of them as one, in order.
  DEVICE_MEMBER T fold() const {
    T total = all[0];
    for (int l = 1; l < COUNT; ++l) total = Op::apply(total, all[l]);
    return total;
  }
};

/// The lanes of a loop over the protocol ll, for elements of `CELLS` cells of 8 bytes: a thread has
/// 16 bytes, behind those of the thread before it, so that a warp's access leaves no gaps.
template <int W, int CELLS>
constexpr int CELL_LANES = W < 2 / CELLS ? W : 2 / CELLS;

/// The lanes of a loop over lines of the protocol ll128, where other loops have W: a thread has
/// four words of a line.
template <int W>
constexpr int LINE_LANES = W < 4 ? W : 4;
DEVICE bool loads_vectors(u64 mode) { return (mode & VECTORIZE) != 0; }

/// The thread's place in its team.
DEVICE int team_lane(const Block& block) { return block.thread % TEAM; }

/// Calls f(i) for [0, count), strided over the teams of the block, whose lanes get the same.
template <class F>
DEVICE void for_each_team(const Block& block, index_t count, F f) {
  for (index_t i = block.thread / TEAM; i < count; i += block.threads / TEAM) f(i);
}

/// The threads' totals as one, combined in an order that depends on the block alone; all threads
/// get it.
template <class Op, class T>
DEVICE T block_total(const Block& block, T total) {
  BLOCK_SHARED(block, T, of_warp, 32);
  for (int step = 16; step > 0; step /= 2)
    total = Op::apply(total, shuffle_down(block, total, step));
  block_barrier(block);
  if (block.thread % 32 == 0) of_warp[block.thread / 32] = total;
  block_barrier(block);
  T all = of_warp[0];
  for (int warp = 1; warp < block.threads / 32; ++warp) all = Op::apply(all, of_warp[warp]);
  return all;
}

/// Adds f(i) to `totals` for i = begin, begin + step ... below `end`. These vectors are loaded four
/// at a time: a thread has to wait for memory once for all of them.
template <int N, class Op, class T, class F>
DEVICE void add_every(index_t begin, index_t step, index_t end, vec<N, T>& totals, F f) {
  constexpr int AT_ONCE = 4;
  const auto add = [&](const auto& values) {
    lanes<N>([&](int l) { totals[l] = Op::apply(totals[l], T(values[l])); });
  };
  index_t i = begin;
  ROLLED
  for (; i + (AT_ONCE - 1) * step < end; i += AT_ONCE * step) {
    decltype(f(i)) values[AT_ONCE];
    UNROLL
    for (int v = 0; v < AT_ONCE; ++v) values[v] = f(i + v * step);
    UNROLL
    for (int v = 0; v < AT_ONCE; ++v) add(values[v]);
  }
  ROLLED
  for (; i < end; i += step) add(f(i));
}

/// Adds the thread's share of elements [begin, end), whole vectors of N, to `totals`.
template <int N, class Op, class T, class F>
DEVICE void add_share(const Block& block, index_t begin, index_t end, vec<N, T>& totals, F f) {
  add_every<N, Op>(begin + index_t(block.thread) * N, index_t(block.threads) * N, end, totals,
                   [&](index_t i) { return f(width<N, false>{}, i); });
}

/// Reduces elements [begin, end) with Op, in an order that depends on them, on `mode` and on the
/// threads of a block; all threads get the result. f(width<N>, i) is elements [i, i + N).
template <int W, class Op, class T, class F>
DEVICE T block_reduce(const Block& block, index_t begin, index_t end, u64 mode, F f) {
  const index_t bulk = W > 1 && mode & VECTORIZE ? begin + (end - begin) / W * W : begin;
  vec<1, T> total;
  total[0] = Op::template identity<T>();
  if constexpr (W > 1) {
    vec<W, T> totals;
    lanes<W>([&](int l) { totals[l] = Op::template identity<T>(); });
    add_share<W, Op>(block, begin, bulk, totals, f);
    lanes<W>([&](int l) { total[0] = Op::apply(total[0], totals[l]); });
  }
  add_share<1, Op>(block, bulk, end, total, f);
  return block_total<Op>(block, total[0]);
}
