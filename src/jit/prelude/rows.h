// Prelude, reductions of the rows of memory: each result combines the elements of one row, or of
// several.

/// Reduces, for each of `results`, `rows` rows of `length` elements: row(o, q)(width<N>, j) is
/// elements [j, j + N) of row q of result o. keep(o, total) takes a result, in one thread. ADJACENT
/// says that row(o + 1, q) is in memory behind row(o, q).
template <int W, class Op, class T, bool ADJACENT, class Row, class Keep>
DEVICE void reduce_rows(const Block& block, const Segments& segments, index_t results, index_t rows,
                        index_t length, u64 mode, Row row, Keep keep) {
  if (together(rows, length)) {
    reduce_rows_together<W, Op, T, ADJACENT>(block, segments, results, rows, length, row, keep);
    return;
  }
  reduce_segments<Op, T>(
      block, segments, results, rows * length,
      [&](index_t o, index_t begin, index_t end) -> T {
        T total = Op::template identity<T>();
        for (index_t q = begin / length; begin < end; ++q) {
          const index_t first = q * length;
          const index_t next = end - first < length ? end : first + length;
          total = Op::apply(
              total, block_reduce<W, Op, T>(block, begin - first, next - first, mode, row(o, q)));
          begin = next;
        }
        return total;
      },
      [&](index_t o, T total) {
        if (is_leader(block)) keep(o, total);
      });
}
