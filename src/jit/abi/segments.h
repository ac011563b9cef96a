// ABI, reductions of many elements: what each result combines is cut into segments, whatever the
// grid is, and blocks share out the segments.

/// Rows of fewer elements are reduced by a few threads each, and on the host many at a time: only
/// longer ones have work for all threads of a block.
constexpr index_t SHORT_ROW = 1024;

/// Up to so many rows that are added to each other are one thread's work. With more of them, a
/// block has 32 threads side by side, or fewer where there are fewer results.
constexpr index_t FEW_ROWS = 32;
constexpr int THREADS_BESIDE = 32;

/// The elements of a result, its rows where a thread reduces several, or its buckets where tensors
/// are scattered, are `count` segments of `length`. `arrived` has, for every result, how many of
/// them are done, and is zero between launches; behind it are the totals of all segments, a word
/// each: result by result, or segment by segment where a thread reduces several rows.
struct Segments {
  index_t count, length;
  u64* arrived;
};
/// Words of all of it.
DEVICE constexpr index_t segment_words(index_t results, index_t count) {
  return results * (1 + count);
}

static_assert(sizeof(Segments) == 24 && OFFSET_OF(arrived, Segments) == 16);
