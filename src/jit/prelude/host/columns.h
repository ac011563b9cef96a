// Prelude, reductions of many results where a block runs as one lane. Memory is walked along: the
// totals of many results are in the first cache, and every row that is read is added to them.

/// Totals, or elements of short rows, that a block has at a time: 8 KiB at most.
constexpr int AT_HAND = 1024;
static_assert(SHORT_ROW <= AT_HAND);

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
    T* const to = totals + c;
    const auto add_all = [&](const auto&... values) {
      write_lanes<N>(to, [&](int l) {
        T total = to[l];
        ((total = Op::apply(total, T(values[l]))), ...);
        return total;
      });
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
  const index_t tiles = (columns + AT_HAND - 1) / AT_HAND;
  for (index_t tile = block.index; tile < results / columns * tiles; tile += block.count) {
    const index_t p = tile / tiles, first = tile % tiles * AT_HAND;
    const index_t count = columns - first < AT_HAND ? columns - first : AT_HAND;
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

/// Up to 16 T as the machine's vectors have them, in the vector types of gcc and clang: gcc takes
/// apart loops over lanes of which it needs others than neighbours.
template <class T>
struct machine {
  static constexpr int lanes = MACHINE_BYTES < 16 * sizeof(T) ? MACHINE_BYTES / sizeof(T) : 16;
  typedef T vector __attribute__((vector_size(lanes * sizeof(T))));

  DEVICE vector load(const T* from) {
    vector value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  DEVICE void store(T* to, const vector& value) { __builtin_memcpy(to, &value, sizeof value); }
};

/// What elements are while they are at hand, before they become T: f32 has twice the lanes of f64.
template <class T, class Element>
struct at_hand {
  typedef T type;
};
template <>
struct at_hand<f64, f32> {
  typedef f32 type;
};

template <int N, class T>
T lane_of(vec<N, T>);  // for decltype

/// As many elements as a vector of T has lanes.
template <class T, class Element>
struct elements_for {
  typedef Element vector __attribute__((vector_size(machine<T>::lanes * sizeof(Element))));

  DEVICE typename machine<T>::vector converted(const vector& elements) {
    return __builtin_convertvector(elements, typename machine<T>::vector);
  }
};
#if defined(__AVX512F__) && !defined(__clang__)
// gcc converts half vectors and puts them together.
template <>
struct elements_for<f64, f32> {
  typedef f32 vector __attribute__((vector_size(32)));

  DEVICE typename machine<f64>::vector converted(const vector& elements) {
    constexpr int as_set = 4;  // the rounding, which is none here
    return __builtin_ia32_cvtps2pd512_mask(elements, machine<f64>::vector{}, 0xff, as_set);
  }
};
#endif

template <class T, class Element>
DEVICE typename machine<T>::vector load_as(const Element* from) {
  typename elements_for<T, Element>::vector elements;
  __builtin_memcpy(&elements, from, sizeof elements);
  return elements_for<T, Element>::converted(elements);
}

/// A list of numbers 0, 1 ... N - 1.
template <int... I>
struct numbers {};
template <int N, int... I>
struct numbers_to : numbers_to<N - 1, N - 1, I...> {};
template <int... I>
struct numbers_to<0, I...> {
  typedef numbers<I...> type;
};

/// Combines totals with those of as many rows of L elements as a vector of elements has lanes.
template <int L, class Op, class T, class Element>
struct few_elements {
  typedef typename machine<Element>::vector vector;
  static constexpr int lanes = machine<Element>::lanes, of_totals = machine<T>::lanes;
  typedef typename numbers_to<lanes>::type all_lanes;

  /// `taken`, with those of elements E of the rows that vector V of them has.
  template <int E, int V, int... I>
  DEVICE vector take(const vector& taken, const vector& from, numbers<I...>) {
    return __builtin_shufflevector(taken, from,
                                   ((I * L + E) / lanes == V ? lanes + (I * L + E) % lanes : I)...);
  }
  template <int E, int... V>
  DEVICE vector element(const vector (&rows)[L], numbers<V...>) {
    vector taken = rows[0];
    ((taken = take<E, V>(taken, rows[V], all_lanes{})), ...);
    return taken;
  }
  /// The lanes from FIRST on that a vector of totals has, as T.
  template <int FIRST, int... I>
  DEVICE typename machine<T>::vector part(const vector& elements, numbers<I...>) {
    return elements_for<T, Element>::converted(
        __builtin_shufflevector(elements, elements, (FIRST + I)...));
  }
  template <int FIRST>
  DEVICE void add_part(T* totals, const vector (&elements)[L]) {
    typename machine<T>::vector total = machine<T>::load(totals + FIRST);
    for (int e = 0; e < L; ++e) {
      total = Op::apply(total,
                        part<FIRST>(elements[e], typename numbers_to<of_totals>::type{}));
    }
    machine<T>::store(totals + FIRST, total);
  }
  template <int... E>
  DEVICE void add(T* totals, const Element* rows, numbers<E...> all) {
    const vector vectors[L] = {machine<Element>::load(rows + E * lanes)...};
    const vector elements[L] = {element<E>(vectors, all)...};
    add_part<0>(totals, elements);
    if constexpr (of_totals < lanes) add_part<of_totals>(totals, elements);
    static_assert(2 * of_totals >= lanes);
  }
};

/// Combines totals with the L elements of their rows, which are at hand, one row behind the other:
/// in their order. Returns how many of `count` are whole vectors, which it did.
template <int L, class Op, class T, class Element>
DEVICE index_t add_few_elements(T* totals, const Element* rows, index_t count) {
  constexpr int lanes = machine<Element>::lanes;
  index_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    few_elements<L, Op, T, Element>::add(totals + k, rows + k * L,
                                         typename numbers_to<L>::type{});
  }
  return k;
}

/// Combines each of `count` totals with the `length` elements of its row, at least 16, in the order
/// of `block_reduce`. What is behind the last row may be anything.
template <class Op, class T, class Element>
DEVICE void add_elements(T* totals, const Element* rows, index_t count, index_t length) {
  typedef typename machine<T>::vector vector;
  constexpr int LANES = 16, lanes = machine<T>::lanes, VECTORS = LANES / lanes;
  const index_t whole = length / LANES * LANES;
  const vector none = vector{} + Op::template identity<T>();
  vector rest[VECTORS];  // of the last elements: which lanes have one
  for (int l = 0; l < LANES; ++l) rest[l / lanes][l % lanes] = whole + l < length ? T(1) : T(0);
  for (index_t k = 0; k < count; ++k) {
    const Element* const row = rows + k * length;
    vector partial[VECTORS];
    for (int v = 0; v < VECTORS; ++v) partial[v] = none;
    for (index_t j = 0; j < whole; j += LANES) {
      for (int v = 0; v < VECTORS; ++v)
        partial[v] = Op::apply(partial[v], load_as<T>(row + j + v * lanes));
    }
    for (int v = 0; v < VECTORS && whole < length; ++v) {
      const vector more = Op::apply(partial[v], load_as<T>(row + whole + v * lanes));
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

/// Whichever of them it is: lengths that the compiler knows need no loop for each row.
template <class Op, class T, class Element>
DEVICE void add_rows(T* totals, const Element* rows, index_t count, index_t length) {
  if (length >= 16) return add_elements<Op>(totals, rows, count, length);
  index_t k = 0;
  switch (length) {
#define COCONET_FEW_ELEMENTS(L)                       \
  case L:                                             \
    k = add_few_elements<L, Op>(totals, rows, count); \
    break;
    COCONET_FEW_ELEMENTS(2)
    COCONET_FEW_ELEMENTS(3)
    COCONET_FEW_ELEMENTS(4)
    COCONET_FEW_ELEMENTS(5)
#undef COCONET_FEW_ELEMENTS
  }
  constexpr int lanes = machine<T>::lanes;
  for (; k + lanes <= count; k += lanes) {
    typename machine<T>::vector total = machine<T>::load(totals + k);
    for (index_t j = 0; j < length; ++j) {
      typename machine<T>::vector one;
      for (int l = 0; l < lanes; ++l) one[l] = T(rows[(k + l) * length + j]);
      total = Op::apply(total, one);
    }
    machine<T>::store(totals + k, total);
  }
  for (; k < count; ++k) {
    T total = totals[k];
    for (index_t j = 0; j < length; ++j) total = Op::apply(total, T(rows[k * length + j]));
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

/// Short rows that are taken at once: few, so that the processor fetches the next ones meanwhile.
constexpr index_t MOST_ROWS = 32;

/// `reduce_rows` of short rows: as many as that are computed, as if they were one row if they are
/// adjacent, and then each is reduced.
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_short_rows(const Block& block, const Segments&, index_t results, index_t rows,
                              index_t length, Row row, Keep keep) {
  index_t at_once = AT_HAND / (length > 0 ? length : 1);
  if (at_once > MOST_ROWS) at_once = MOST_ROWS;
  typedef decltype(lane_of(row(0, 0)(width<1, false>{}, 0))) computed;
  typedef typename at_hand<T, computed>::type Element;
  alignas(64) T totals[AT_HAND];
  alignas(64) Element values[AT_HAND + 16];
  for (index_t o = block.index * at_once; o < results; o += block.count * at_once) {
    const index_t count = results - o < at_once ? results - o : at_once;
    for (index_t k = 0; k < count; k += machine<T>::lanes)
      machine<T>::store(totals + k, typename machine<T>::vector{} + Op::template identity<T>());
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
