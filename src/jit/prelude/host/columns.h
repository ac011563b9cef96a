// Prelude, reductions of many results where a block runs as one lane. Memory is walked along: the
// totals of many results are in the first cache, and every row that is read is added to them.

/// Totals of columns, or elements of short rows, that a block has at a time: 8 KiB at most.
constexpr int AT_HAND = 1024;
static_assert(SHORT_ROW <= AT_HAND);

/// Rows that are read at the same time, piece by piece: the processor fetches ahead along each of
/// as many.
constexpr index_t ROWS_AHEAD = 16;

/// Leaves f(l) in to[l] for N lanes, as vectors.
template <int N, class T, class F>
DEVICE void write_lanes(T* to, F f) {
#if defined(__clang__)
  vec<N, T> values;
  for (int l = 0; l < N; ++l) values[l] = f(l);
  store<N>(to, values);
#else
  TO_MEMORY
  for (int l = 0; l < N; ++l) to[l] = f(l);
#endif
}

/// Combines `count` totals with as many elements of each of `rows` from `first` on, in their order.
template <int W, class Op, class T, class... Rows>
DEVICE void add_rows_of(T* totals, index_t count, index_t first, const Rows&... rows) {
  const auto add = [&]<int N>(width<N, false> lanes_here, index_t c) {
    typedef machine<T, N> part;
    const auto add_all = [&](const auto&... values) {
      for (int l = 0; l < N; l += part::lanes) {
        auto total = part::load(totals + c + l);
        ((total = Op::apply(total, part::load_as(values.lane + l))), ...);
        part::store(totals + c + l, total);
      }
    };
    add_all(rows(lanes_here, first + c)...);
  };
  index_t c = 0;
  constexpr int N = AT_ONCE<W>;
  VECTOR_BY_VECTOR
  for (; c + N <= count; c += N) add(width<N, false>{}, c);
  for (; c < count; ++c) add(width<1, false>{}, c);
}

/// Reduces the columns of `rows` rows: result p * columns + c combines, in their order, elements c
/// of the rows row(p, 0), row(p, 1) ...; row(p, q)(width<N>, c) is elements [c, c + N). keep(o,
/// total) takes a result. ADJACENT says that row(p, q + 1) is in memory behind row(p, q): narrow
/// rows are then taken several at a time, as if they were one, and their totals are combined after.
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_columns(const Block& block, const Segments&, index_t results, index_t rows,
                           index_t columns, u64, Row row, Keep keep) {
  if (results == 0) return;
  const index_t fit = AT_HAND / 2 / columns;
  index_t beside = !ADJACENT || fit < 2 ? 1 : fit < rows ? fit : rows > 0 ? rows : 1;
  if (beside > W) beside -= beside % W;  // whole vectors
  const index_t wide = beside > 1 || rows > ROWS_AHEAD ? AT_HAND : 8 * W;
  const index_t tiles = (columns + wide - 1) / wide;
  for (index_t tile = block.index; tile < results / columns * tiles; tile += block.count) {
    const index_t p = tile / tiles, first = tile % tiles * wide;
    const index_t count = columns - first < wide ? columns - first : wide;
    alignas(64) T totals[AT_HAND];
    for (index_t c = 0; c < count * beside; ++c) totals[c] = Op::template identity<T>();
    index_t q = 0;
    // Where parts of rows are far from each other, four at a time: totals go to and from the cache
    // less often, and the processor fetches ahead along all of them.
    for (; tiles > 1 && q + 4 * beside <= rows; q += 4 * beside) {
      add_rows_of<W, Op>(totals, count * beside, first, row(p, q), row(p, q + beside),
                         row(p, q + 2 * beside), row(p, q + 3 * beside));
    }
    for (; q + beside <= rows; q += beside)
      add_rows_of<W, Op>(totals, count * beside, first, row(p, q));
    if (q < rows) add_rows_of<W, Op>(totals, count * (rows - q), first, row(p, q));
    for (index_t b = 1; b < beside; ++b) {
      for (index_t c = 0; c < count; ++c) totals[c] = Op::apply(totals[c], totals[b * count + c]);
    }
    for (index_t c = 0; c < count; ++c) keep(p * columns + first + c, totals[c]);
  }
}

/// Combines each of `count` totals with the `length` elements of its row, at least 16, in the order
/// of `block_reduce`. What is behind the last row may be anything.
template <class Op, class T>
DEVICE void add_elements(T* totals, const T* rows, index_t count, index_t length) {
  typedef typename machine<T>::vector vector;
  constexpr int LANES = 16, lanes = machine<T>::lanes, VECTORS = LANES / lanes;
  const index_t whole = length / LANES * LANES;
  const vector none = vector{} + Op::template identity<T>();
  vector rest[VECTORS];  // of the last elements: which lanes have one
  for (int l = 0; l < LANES; ++l) rest[l / lanes][l % lanes] = whole + l < length ? T(1) : T(0);
  for (index_t k = 0; k < count; ++k) {
    const T* const row = rows + k * length;
    vector partial[VECTORS];
    for (int v = 0; v < VECTORS; ++v) partial[v] = none;
    for (index_t j = 0; j < whole; j += LANES) {
      for (int v = 0; v < VECTORS; ++v)
        partial[v] = Op::apply(partial[v], machine<T>::load(row + j + v * lanes));
    }
    for (int v = 0; v < VECTORS && whole < length; ++v) {
      const vector more = Op::apply(partial[v], machine<T>::load(row + whole + v * lanes));
      partial[v] = rest[v] != vector{} ? more : partial[v];
    }
    for (int step = VECTORS / 2; step > 0; step /= 2) {
      for (int v = 0; v < step; ++v) partial[v] = Op::apply(partial[v], partial[v + step]);
    }
    T last[lanes];
    machine<T>::store(last, partial[0]);
    for (int step = lanes / 2; step > 0; step /= 2) {
      for (int l = 0; l < step; ++l) last[l] = Op::apply(last[l], last[l + step]);
    }
    totals[k] = Op::apply(totals[k], last[0]);
  }
}

/// Combines each of `count` totals with the `length` elements of its row.
template <class Op, class T>
DEVICE void add_rows(T* totals, const T* rows, index_t count, index_t length) {
  if (length >= 16) return add_elements<Op>(totals, rows, count, length);
  constexpr int lanes = machine<T>::lanes;
  index_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    typename machine<T>::vector total = machine<T>::load(totals + k);
    for (index_t j = 0; j < length; ++j) {
      typename machine<T>::vector one;
      for (int l = 0; l < lanes; ++l) one[l] = rows[(k + l) * length + j];
      total = Op::apply(total, one);
    }
    machine<T>::store(totals + k, total);
  }
  for (; k < count; ++k) {
    T total = totals[k];
    for (index_t j = 0; j < length; ++j) total = Op::apply(total, rows[k * length + j]);
    totals[k] = total;
  }
}

/// Leaves elements [0, count) of `elements` in `values`.
template <int W, class T, class Elements>
DEVICE void compute_row(T* values, index_t count, const Elements& elements) {
  const auto compute = [&]<int N>(width<N, false> lanes_here, index_t j) {
    const auto some = elements(lanes_here, j);
    write_lanes<N>(values + j, [&](int l) { return T(some[l]); });
  };
  index_t j = 0;
  constexpr int N = AT_ONCE<W>;
  VECTOR_BY_VECTOR
  for (; j + N <= count; j += N) compute(width<N, false>{}, j);
  for (; j < count; ++j) compute(width<1, false>{}, j);
}

/// Rows that are computed before they are reduced: few, so that the processor fetches the next ones
/// meanwhile.
constexpr index_t MOST_ROWS = 32;

/// Reduces short rows: some are computed, as if they were one row if they are adjacent, and then
/// each is reduced.
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_computed_rows(index_t begin, index_t end, index_t rows, index_t length, Row row,
                                 Keep keep) {
  index_t at_once = AT_HAND / (length > 0 ? length : 1);
  if (at_once > MOST_ROWS) at_once = MOST_ROWS;
  alignas(64) T totals[MOST_ROWS];
  alignas(64) T values[AT_HAND + 16];
  for (index_t o = begin; o < end; o += at_once) {
    const index_t count = end - o < at_once ? end - o : at_once;
    for (index_t k = 0; k < MOST_ROWS; ++k) totals[k] = Op::template identity<T>();
    for (index_t q = 0; q < rows; ++q) {
      if constexpr (ADJACENT) {
        compute_row<W>(values, count * length, row(o, q));
      } else {
        for (index_t k = 0; k < count; ++k)
          compute_row<W>(values + k * length, length, row(o + k, q));
      }
      add_rows<Op>(totals, values, count, length);
    }
    for (index_t k = 0; k < count; ++k) keep(o + k, totals[k]);
  }
}

template <int N, class T>
T lane_of(vec<N, T>);  // for decltype

/// What elements are until they are combined with totals: f32 has twice the lanes of f64.
template <class T, class Computed>
struct until_combined {
  typedef T type;
};
template <>
struct until_combined<f64, f32> {
  typedef f32 type;
};

/// The totals of rows of L adjacent elements, as many as a vector of elements has lanes.
template <int L, class Op, class T, class Element>
struct few_elements {
  typedef typename machine<Element>::vector vector;
  typedef typename machine<T>::vector total;
  static constexpr int lanes = machine<Element>::lanes, of_total = machine<T>::lanes;
  static constexpr int parts = lanes / of_total;
  typedef typename numbers_to<lanes>::type all_lanes;

  /// The elements E of all rows, by row. Where no two of them are in one lane of their vectors,
  /// each lane is chosen first and all are put in order after, which is fewer permutations.
  template <int E, int... I>
  DEVICE vector element(const vector (&rows)[L], numbers<I...> all) {
    if constexpr (L % 2 == 1) {
      const vector chosen = choose<E, L - 1>(rows, all);
      return __builtin_shufflevector(chosen, chosen, ((I * L + E) % lanes)...);
    } else {
      return permute<E, L - 1>(rows, all);
    }
  }
  /// Lanes of vectors up to V that hold an element E.
  template <int E, int V, int... I>
  DEVICE vector choose(const vector (&rows)[L], numbers<I...> all) {
    if constexpr (V == 0) {
      return rows[0];
    } else {
      return __builtin_shufflevector(choose<E, V - 1>(rows, all), rows[V],
                                     ((V * lanes + I) % L == E ? lanes + I : I)...);
    }
  }
  /// Lane I is element E of row I, if that is in vector V or one before it.
  template <int E, int V, int... I>
  DEVICE vector permute(const vector (&rows)[L], numbers<I...> all) {
    if constexpr (V == 1) {
      return __builtin_shufflevector(rows[0], rows[1],
                                     (I * L + E < 2 * lanes ? I * L + E : 0)...);
    } else {
      return __builtin_shufflevector(
          permute<E, V - 1>(rows, all), rows[V],
          ((I * L + E) / lanes == V ? lanes + (I * L + E) % lanes : I)...);
    }
  }
  template <int FIRST, int... I>
  DEVICE total part(const vector& elements, numbers<I...>) {
    return machine<T>::template converted<Element>(
        __builtin_shufflevector(elements, elements, (FIRST + I)...));
  }
  template <int... P>
  DEVICE void add(total (&totals)[parts], const vector& elements, numbers<P...>) {
    typedef typename numbers_to<of_total>::type lanes_of_total;
    ((totals[P] = Op::apply(totals[P], part<P * of_total>(elements, lanes_of_total{}))), ...);
  }
  template <int... E>
  DEVICE void add_rows(total (&totals)[parts], const vector (&rows)[L], numbers<E...>) {
    (add(totals, element<E>(rows, all_lanes{}), typename numbers_to<parts>::type{}), ...);
  }
};

/// Reduces adjacent rows of L elements, of as many results at a time as a vector of elements has
/// lanes, in their order. Returns the first result that is left.
template <int L, class Op, class T, class Row, class Keep>
DEVICE index_t reduce_few_elements(index_t begin, index_t end, index_t rows, Row row, Keep keep) {
  typedef decltype(lane_of(row(0, 0)(width<1, false>{}, 0))) computed;
  typedef typename until_combined<T, computed>::type Element;
  typedef few_elements<L, Op, T, Element> few;
  constexpr int N = few::lanes;
  index_t o = begin;
  for (; o + N <= end; o += N) {
    typename few::total totals[few::parts];
    for (int p = 0; p < few::parts; ++p)
      totals[p] = typename few::total{} + Op::template identity<T>();
    for (index_t q = 0; q < rows; ++q) {
      const auto elements = row(o, q);
      typename few::vector vectors[L];
      for (int v = 0; v < L; ++v) {
        const auto values = elements(width<N, false>{}, v * N);
        Element taken[N];
        for (int l = 0; l < N; ++l) taken[l] = Element(values[l]);
        vectors[v] = machine<Element>::load(taken);
      }
      few::add_rows(totals, vectors, typename numbers_to<L>::type{});
    }
    T kept[N];
    __builtin_memcpy(kept, totals, sizeof kept);
    TO_MEMORY
    for (int l = 0; l < N; ++l) keep(o + l, kept[l]);
  }
  return o;
}
