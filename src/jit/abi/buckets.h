// ABI, scattered tensors: each lies over many buffers, whose addresses are in an array. A loop goes
// bucket by bucket.

/// Elements [begin, begin + length) of what a loop runs over, which lie in one buffer of every
/// scattered tensor: the one that begins with element `start` of the whole.
struct Bucket {
  index_t begin, start;
  u32 length, buffer;
};

/// All buckets of what a loop runs over, in order.
struct Buckets {
  const Bucket* rows;
  index_t count;
};

/// Reductions of each buffer. The buckets of buffer b are rows [first[b], first[b + 1]) of `rows`.
/// `arrived` has, for each of the `buffers`, how many of them are done, and is zero between
/// launches; behind it are the totals of all rows, a word each. A kernel with several reductions
/// has as many of both.
struct BufferRows {
  const index_t* first;
  index_t buffers, rows;
  u64* arrived;
};
/// Words of one reduction.
DEVICE constexpr index_t buffer_row_words(index_t buffers, index_t rows) {
  return buffers + rows;
}

/// Where ranks leave their totals of each buffer for each other: at every rank words
/// [2][COUNT][buffers][R], of which launches use the halves in turn.
template <int R, int COUNT>
struct BufferTotals {
  u64 turn;
  u64* of[R];
};
DEVICE constexpr index_t buffer_total_word(u64 turn, int counts, int ranks, int index,
                                           index_t buffers, index_t buffer, index_t rank) {
  return ((index_t(turn & 1) * counts + index) * buffers + buffer) * ranks + rank;
}
/// Words of all of them at one rank.
DEVICE constexpr index_t buffer_total_words(int counts, int ranks, index_t buffers) {
  return 2 * counts * buffers * ranks;
}

static_assert(sizeof(BufferRows) == 32 && OFFSET_OF(arrived, BufferRows) == 24);
static_assert(sizeof(BufferTotals<3, 2>) == 4 * sizeof(u64));
static_assert(sizeof(Bucket) == 24 && OFFSET_OF(buffer, Bucket) == 20);
static_assert(sizeof(Buckets) == 16 && OFFSET_OF(count, Buckets) == 8);
