// ABI, reductions of many elements: what each result combines is cut into segments, whatever the
// grid is, and blocks share out the segments.

/// The elements of a result, or its buckets where tensors are scattered, are `count` segments of
/// `length`. `arrived` has, for every result, how many of them are done, and is zero between
/// launches; behind it are the totals of all segments, a word each, result by result.
struct Segments {
  index_t count, length;
  u64* arrived;
};
/// Words of all of it.
DEVICE constexpr index_t segment_words(index_t results, index_t count) {
  return results * (1 + count);
}

static_assert(sizeof(Segments) == 24 && OFFSET_OF(arrived, Segments) == 16);
