// Prelude, reductions of many elements: blocks reduce segments, and whoever completes a result
// combines the totals of its segments, in their order. Nobody waits, and the grid does not show in
// the bits.

/// Leaves the total of segment `segment` of result `o`. True, for all threads, where that was the
/// last one to come: `total` is the result then.
template <class Op, class T>
DEVICE bool completes(const Block& block, const Segments& segments, index_t results, index_t o,
                      index_t segment, T& total) {
  u64* const totals = segments.arrived + results + o * segments.count;
  if (is_leader(block)) *reinterpret_cast<T*>(totals + segment) = total;
  if (!is_last(block, segments.arrived + o, segments.count)) return false;
  total = fold_words<Op, T>(block, totals, segments.count);
  return true;
}

/// Reduces, for each of `results`, `count` elements or buckets: reduce(o, begin, end) is the total
/// of a range of them, and keep(o, total) takes the result, in one block.
template <class Op, class T, class Reduce, class Keep>
DEVICE void reduce_segments(const Block& block, const Segments& segments, index_t results,
                            index_t count, Reduce reduce, Keep keep) {
  index_t o = block.index / segments.count, segment = block.index % segments.count;
  const index_t more = block.count / segments.count, rest = block.count % segments.count;
  while (o < results) {
    const index_t begin = segment * segments.length;
    const index_t end = count - begin < segments.length ? count : begin + segments.length;
    T total = reduce(o, begin, end);
    if (segments.count == 1 || completes<Op>(block, segments, results, o, segment, total))
      keep(o, total);
    o += more;
    segment += rest;
    if (segment >= segments.count) {
      segment -= segments.count;
      ++o;
    }
  }
}
