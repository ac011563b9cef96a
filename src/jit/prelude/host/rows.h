// Prelude, reductions of the rows of memory where a block runs as one lane. All elements of a row
// are this lane's, and results are shared out among blocks.

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int REGISTERS = 32;
#else
constexpr int REGISTERS = 16;
#endif

/// What `block_reduce` takes of a row at once.
template <int W>
constexpr int OF_ROW = AT_ONCE<W> < LANES ? AT_ONCE<W> : LANES;

/// Rows that are reduced at the same time, whose totals fit into the registers. One row alone would
/// wait for its own additions, and load again what all rows share, such as the vector that a matrix
/// is multiplied by. Of eight at a time, Zen 4 fetches rows of 4 KiB ahead too late.
template <int W, class T>
constexpr int ROWS_BESIDE = [] {
  constexpr int fit = REGISTERS * machine<T, OF_ROW<W>>::lanes / LANES;
  return fit < 1 ? 1 : fit < 4 ? fit : 4;
}();

/// N totals as one, in the order of `block_reduce`.
template <class Op, class T, int N>
DEVICE T fold_lanes(const void* from) {
  if constexpr (N == 1) {
    return *static_cast<const T*>(from);
  } else {
    // as many as the machine's vectors have, at most
    constexpr int half = N / 2, lanes = machine<T, half>::lanes;
    T lower[half];
    for (int l = 0; l < half; l += lanes) {
      const auto low = machine<T, half>::load(static_cast<const T*>(from) + l);
      const auto high = machine<T, half>::load(static_cast<const T*>(from) + half + l);
      machine<T, half>::store(lower + l, Op::apply(low, high));
    }
    return fold_lanes<Op, T, half>(lower);
  }
}

/// Combines totals with elements [begin, end), N at a time, and the last ones fewer.
template <int N, class Op, class T, class Elements>
DEVICE void add_rest(T* totals, index_t begin, index_t end, const Elements& elements) {
  typedef machine<T, N> part;
  ROLLED
  for (; begin + N <= end; begin += N, totals += N) {
    const auto values = elements(width<N, false>{}, begin);
    for (int l = 0; l < N; l += part::lanes) {
      part::store(totals + l, Op::apply(part::load(totals + l), part::load_as(values.lane + l)));
    }
  }
  if constexpr (N > 1) add_rest<N / 2, Op>(totals, begin, end, elements);
}

/// Bytes of all rows from which on these are fetched ahead. A processor follows a row to the end of
/// its page only, and of several beside each other begins late with each. On Zen 3, f64, two ranks
/// beside each other, it saves a third of the time of 8 MiB a rank and a tenth to a half of that of
/// 16; below, where the caches hold all, fetching costs some percent.
constexpr index_t FAR_BYTES = index_t{8} << 20;

/// Reduces one row of each result o + R. `ahead` is how many elements before its turn one is
/// fetched, of the next results' rows where these end; 0 for not at all.
template <int W, class Op, class T, class Row, class Keep, int... R>
DEVICE void reduce_beside(index_t o, index_t length, index_t ahead, Row row, Keep keep,
                          numbers<R...>) {
  constexpr int N = OF_ROW<W>;
  typedef machine<T, N> part;
  typedef typename numbers_to<N / part::lanes>::type vectors;
  vector_totals<Op, T, LANES, part> totals[sizeof...(R)];
  const auto reduce = [&](const auto&... rows) {
    const auto add = [&]<int... P>(index_t j, numbers<P...>) {
      const auto add_part = [&]<int FIRST>(width<FIRST, false>) {
        (totals[R].template add<FIRST / part::lanes>(rows(width<N, false>{}, j + FIRST), vectors{}),
         ...);
      };
      (add_part(width<P * N, false>{}), ...);
    };
    const auto fetch = [&](index_t j, const auto&... next) {
      if (j < length) {
        (rows(width<0, false>{}, j), ...);
      } else {
        (next(width<0, false>{}, j - length), ...);
      }
    };
    index_t j = 0;
    TURN_BY_TURN
    for (; j + LANES <= length; j += LANES) {
      if (ahead > 0) fetch(j + ahead, row(o + int(sizeof...(R)) + R, 0)...);
      add(j, typename numbers_to<LANES / N>::type{});
    }
    return j;
  };
  const index_t rest = reduce(row(o + R, 0)...);
  if (rest == length) {
    (keep(o + R, fold_lanes<Op, T, LANES>(totals[R].totals)), ...);
    return;
  }
  constexpr int rows = sizeof...(R), most = N < LANES ? N : LANES / 2;
  T stored[rows][LANES];
  (__builtin_memcpy(stored[R], totals[R].totals, sizeof stored[R]), ...);
  ROLLED
  for (int r = 0; r < rows; ++r) {
    add_rest<most, Op>(stored[r], rest, length, row(o + r, 0));
    keep(o + r, fold_lanes<Op, T, LANES>(stored[r]));
  }
}

/// Whether rows of so many elements are reduced beside each other. Of shorter ones many are
/// computed first, after which their last elements cost less; measured on Zen 4, f32 and f64.
DEVICE bool beside(index_t length) {
  return length % LANES == 0 ? length >= 32 : length >= 256;
}

/// Reduces long rows, several for each result: row q of many results before row q + 1 of any, so
/// that memory is walked along.
template <int W, class Op, class T, class Row, class Keep>
DEVICE void reduce_rows_in_turn(const Block& block, const Range& share, index_t rows,
                                index_t length, Row row, Keep keep) {
  T totals[AT_HAND];
  for (index_t o = share.begin; o < share.end; o += AT_HAND) {
    const index_t count = share.end - o < AT_HAND ? share.end - o : AT_HAND;
    for (index_t k = 0; k < count; ++k) totals[k] = Op::template identity<T>();
    for (index_t q = 0; q < rows; ++q) {
      for (index_t k = 0; k < count; ++k) {
        totals[k] =
            Op::apply(totals[k], block_reduce<W, Op, T>(block, 0, length, 0, row(o + k, q)));
      }
    }
    for (index_t k = 0; k < count; ++k) keep(o + k, totals[k]);
  }
}

/// Reduces, for each of `results`, `rows` rows of `length` elements: row(o, q)(width<N>, j) is
/// elements [j, j + N) of row q of result o; where N is 0, it fetches what elements [j, j + LANES)
/// are computed of. keep(o, total) takes a result. ADJACENT says that row(o + 1, q) is in memory
/// behind row(o, q).
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_rows(const Block& block, const Segments&, index_t results, index_t rows,
                        index_t length, u64, Row row, Keep keep) {
  const Range share = share_of(block, results, MOST_ROWS);
  index_t begin = share.begin;
  if (rows == 1 && beside(length)) {
    constexpr int R = ROWS_BESIDE<W, T>;
    constexpr index_t bytes = VECTOR_BYTES / W;  // of the widest element
    const bool far = results * length * bytes >= FAR_BYTES && length * bytes >= BYTES_AHEAD;
    const index_t ahead = far ? BYTES_AHEAD / bytes : 0;
    for (; begin + R <= share.end; begin += R)
      reduce_beside<W, Op, T>(begin, length, ahead, row, keep, typename numbers_to<R>::type{});
    for (; begin < share.end; ++begin)
      reduce_beside<W, Op, T>(begin, length, 0, row, keep, numbers<0>{});
    return;
  }
  if (length >= SHORT_ROW) {  // several for each result
    reduce_rows_in_turn<W, Op, T>(block, share, rows, length, row, keep);
    return;
  }
  if constexpr (ADJACENT) {
    switch (length) {  // lengths that the compiler knows need no loop for each row
#define COCONET_FEW_ELEMENTS(L)                                               \
  case L:                                                                     \
    begin = reduce_few_elements<L, Op, T>(begin, share.end, rows, row, keep); \
    break;
      COCONET_FEW_ELEMENTS(2)
      COCONET_FEW_ELEMENTS(3)
      COCONET_FEW_ELEMENTS(4)
      COCONET_FEW_ELEMENTS(5)
#undef COCONET_FEW_ELEMENTS
    }
  }
  reduce_computed_rows<W, Op, T, ADJACENT>(begin, share.end, rows, length, row, keep);
}
