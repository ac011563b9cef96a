// Prelude, reductions of many results where blocks are threads: neighbouring threads have
// neighbouring results, and a thread combines rows, or parts of short ones.

/// How the threads of a block share out work: `group` of them have a row or column together,
/// `across` groups are side by side, and `down` such levels take every `down`th row.
struct Places {
  int group, across, down;
  int lane, column, level;  // of this thread

  DEVICE_MEMBER Places(const Block& block, int group, index_t rows, index_t columns)
      : group(group) {
    const int groups = block.threads / group;
    const int beside = THREADS_BESIDE / group;
    across = rows <= FEW_ROWS ? groups : columns < beside ? int(columns) : beside;
    down = groups / across;
    lane = block.thread % group;
    column = block.thread / group % across;
    level = block.thread / group / across;
  }
};

/// The totals of a group's threads as one, then those of all levels: at lane 0 of level 0.
template <class Op, int N, class T>
DEVICE void combine(const Block& block, const Places& at, vec<N, T>& totals) {
  lanes<N>([&](int l) {
    for (int step = at.group / 2; step > 0; step /= 2)
      totals[l] = Op::apply(totals[l], shuffle_down(block, totals[l], step));
  });
  if (at.down == 1) return;
  BLOCK_SHARED(block, T, of_groups, 1024);
  const int place = at.level * at.across + at.column;
  lanes<N>([&](int l) {
    if (at.lane == 0) of_groups[place] = totals[l];
    block_barrier(block);
    if (at.lane == 0 && at.level == 0) {
      for (int level = 1; level < at.down; ++level)
        totals[l] = Op::apply(totals[l], of_groups[level * at.across + place]);
    }
    block_barrier(block);
  });
}

/// Whether this block's segment is the last of the tile of results that begins with `first` to
/// come: `totals`, those of result o and the next, are then of all segments.
template <class Op, int N, class T>
DEVICE bool completes_tile(const Block& block, const Segments& segments, index_t results,
                           index_t segment, index_t first, index_t o, const Places& at, bool works,
                           vec<N, T>& totals) {
  u64* const words = segments.arrived + results + o;
  if (works && at.level == 0) {
    lanes<N>([&](int l) { *reinterpret_cast<T*>(words + segment * results + l) = totals[l]; });
  }
  block_barrier(block);
  if (!is_last(block, segments.arrived + first, segments.count)) return false;
  totals = no_totals<Op, N, T>();
  if (works) {
    add_every<N, Op>(at.level, at.down, segments.count, totals, [&](index_t s) {
      vec<N, T> of_segment;
      lanes<N>(
          [&](int l) { of_segment[l] = *reinterpret_cast<const T*>(words + s * results + l); });
      return of_segment;
    });
  }
  combine<Op>(block, at, totals);
  return true;
}

/// Reduces tiles of results, N of them by a group of threads: add(totals, p, c, at, begin, end)
/// adds every `at.down`th of rows [begin, end) to the totals of results p * columns + c and the
/// next.
template <int N, class Op, class T, class Add, class Keep>
DEVICE void reduce_tiles(const Block& block, const Segments& segments, index_t results,
                         index_t rows, index_t columns, int group, Add add, Keep keep) {
  if (results == 0) return;
  const index_t vectors = (columns + N - 1) / N;
  const Places at(block, group, rows, vectors);
  const index_t tiles = (vectors + at.across - 1) / at.across;
  const index_t parts = results / columns * tiles * segments.count;
  for (index_t part = block.index; part < parts; part += block.count) {
    const index_t segment = part % segments.count, tile = part / segments.count;
    const index_t p = tile / tiles, first = tile % tiles * at.across * N;
    const index_t c = first + at.column * N, o = p * columns + c;
    const bool works = c < columns && at.level < at.down;
    const index_t begin = segment * segments.length;
    const index_t end = rows - begin < segments.length ? rows : begin + segments.length;
    vec<N, T> totals = no_totals<Op, N, T>();
    if (works) add(totals, p, c, at, begin + at.level, end);
    combine<Op>(block, at, totals);
    const bool has_total = works && at.lane == 0;
    if (segments.count > 1 && !completes_tile<Op>(block, segments, results, segment,
                                                  p * columns + first, o, at, has_total, totals))
      continue;
    if (has_total && at.level == 0) lanes<N>([&](int l) { keep(o + l, totals[l]); });
  }
}

/// Reduces the columns of `rows` rows: result p * columns + c combines elements c of the rows
/// row(p, 0), row(p, 1) ...; row(p, q)(width<N>, c) is elements [c, c + N). keep(o, total) takes a
/// result, in one thread.
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_columns(const Block& block, const Segments& segments, index_t results,
                           index_t rows, index_t columns, u64 mode, Row row, Keep keep) {
  const auto reduce = [&]<int N>(width<N, false>) {
    reduce_tiles<N, Op, T>(
        block, segments, results, rows, columns, 1,
        [&](vec<N, T>& totals, index_t p, index_t c, const Places& at, index_t begin, index_t end) {
          add_every<N, Op>(begin, at.down, end, totals,
                           [&](index_t q) { return row(p, q)(width<N, false>{}, c); });
        },
        keep);
  };
  if constexpr (W > 1) {
    if (mode & VECTORIZE && columns % W == 0) {
      reduce(width<W, false>{});
      return;
    }
  }
  reduce(width<1, false>{});
}

/// Whether `reduce_rows_together` is how these rows are reduced.
DEVICE bool together(index_t, index_t length) { return length < SHORT_ROW; }

/// `reduce_rows` of short rows: as many threads for each as leave everyone about four elements.
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_rows_together(const Block& block, const Segments& segments, index_t results,
                                 index_t rows, index_t length, Row row, Keep keep) {
  int group = 1;
  while (group < 32 && group * 4 < length) group *= 2;
  reduce_tiles<1, Op, T>(
      block, segments, results, rows, results, group,
      [&](vec<1, T>& total, index_t, index_t o, const Places& at, index_t begin, index_t end) {
        for (index_t q = begin; q < end; q += at.down) {
          const auto elements = row(o, q);
          add_every<1, Op>(at.lane, at.group, length, total,
                           [&](index_t j) { return elements(width<1, false>{}, j); });
        }
      },
      keep);
}
