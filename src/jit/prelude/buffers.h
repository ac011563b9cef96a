// Prelude, reductions of each buffer of a list: blocks reduce buckets, and whoever completes a
// buffer combines the totals of its buckets, in their order. The grid does not show in the bits.

/// Leaves the total of bucket `row`, of `buffer`, in the reduction `index` of a kernel. True, for
/// all threads, where that was the last one of the buffer to come: `total` is the buffer's then.
template <class Op, class T>
DEVICE bool completes_buffer(const Block& block, const BufferRows& rows, int index, index_t row,
                             index_t buffer, T& total) {
  const index_t first = rows.first[buffer], count = rows.first[buffer + 1] - first;
  u64* const arrived = rows.arrived + index * buffer_row_words(rows.buffers, rows.rows);
  u64* const totals = arrived + rows.buffers;
  if (is_leader(block)) *reinterpret_cast<T*>(totals + row) = total;
  if (!is_last(block, arrived + buffer, count)) return false;
  if (count > 1) total = fold_words<Op, T>(block, totals + first, count);
  return true;
}

/// Calls f(buffer) for the buffers without a bucket, of which each block has its share.
template <class F>
DEVICE void for_each_empty_buffer(const Block& block, const BufferRows& rows, F f) {
  for (index_t buffer = block.index; buffer < rows.buffers; buffer += block.count) {
    if (rows.first[buffer] == rows.first[buffer + 1]) f(buffer);
  }
}

/// Reduces each buffer: reduce(bucket) is the total of a bucket, and keep(o, total) takes that of
/// buffer o, in one block.
template <class Op, class T, class Reduce, class Keep>
DEVICE void reduce_buffers(const Block& block, const Buckets& buckets, const BufferRows& rows,
                           Reduce reduce, Keep keep) {
  for (index_t row = block.index; row < buckets.count; row += block.count) {
    const index_t buffer = index_t(buckets.rows[row].buffer);
    T total = reduce(buckets.rows[row]);
    if (completes_buffer<Op>(block, rows, 0, row, buffer, total)) keep(buffer, total);
  }
  for_each_empty_buffer(block, rows,
                        [&](index_t buffer) { keep(buffer, Op::template identity<T>()); });
}

/// Leaves the total of a bucket, and sends that of its buffer to all ranks when it is complete.
template <class Op, class T, int R, int COUNT>
DEVICE void put_buffer_total(const Block& block, const Sync<R>& sync, const BufferRows& rows,
                             const BufferTotals<R, COUNT>& totals, int index, index_t row,
                             index_t buffer, T total) {
  if (!completes_buffer<Op>(block, rows, index, row, buffer, total)) return;
  const index_t at =
      buffer_total_word(totals.turn, COUNT, R, index, rows.buffers, buffer, index_t(sync.rank));
  for_each_thread(block, R,
                  [&](index_t peer) { *reinterpret_cast<T*>(totals.of[peer] + at) = total; });
}

/// Sends totals of nothing for the buffers of which this rank has no element.
template <class Op, class T, int R, int COUNT>
DEVICE void put_empty_totals(const Block& block, const Sync<R>& sync, const BufferRows& rows,
                             const BufferTotals<R, COUNT>& totals, int index) {
  for_each_empty_buffer(block, rows, [&](index_t buffer) {
    const index_t at =
        buffer_total_word(totals.turn, COUNT, R, index, rows.buffers, buffer, index_t(sync.rank));
    for_each_thread(block, R, [&](index_t peer) {
      *reinterpret_cast<T*>(totals.of[peer] + at) = Op::template identity<T>();
    });
  });
}

/// Total `index` of a buffer, of all ranks, combined in their order.
template <class Op, class T, int R, int COUNT>
DEVICE T all_buffer_totals(const Sync<R>& sync, const BufferRows& rows,
                           const BufferTotals<R, COUNT>& totals, int index, index_t buffer) {
  const u64* const all = totals.of[sync.rank] +
                         buffer_total_word(totals.turn, COUNT, R, index, rows.buffers, buffer, 0);
  T total = *reinterpret_cast<const T*>(all);
  UNROLL
  for (int rank = 1; rank < R; ++rank)
    total = Op::apply(total, *reinterpret_cast<const T*>(all + rank));
  return total;
}
