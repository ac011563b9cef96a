// ABI, slices of a tensor by rank, and the chunks in which blocks move them.

/// A tensor as `outer` rows of `extent` runs of `inner` elements. Rank r owns the runs [r * block,
/// (r + 1) * block) of each row, or rank `only` all of them.
struct Slices {
  index_t outer, inner, extent, block, only;

  /// Runs that `rank` owns of each row.
  DEVICE_MEMBER constexpr index_t runs(int rank) const {
    if (only >= 0) return rank == only ? extent : 0;
    const index_t begin = block * rank;
    return begin >= extent ? 0 : begin + block > extent ? extent - begin : block;
  }
  /// Elements that `rank` owns.
  DEVICE_MEMBER constexpr index_t count(int rank) const { return outer * runs(rank) * inner; }
};

/// Element `i` of a rank's slice, as an element of the whole tensor; `room` is how many follow it
/// there without a gap.
DEVICE constexpr index_t element_of(const Slices& slices, int rank, index_t i, index_t& room) {
  const index_t run = slices.runs(rank) * slices.inner;
  const index_t first = slices.only >= 0 ? 0 : slices.block * rank * slices.inner;
  if (slices.outer == 1) {
    room = run - i;
    return first + i;
  }
  const index_t column = i % run;
  room = run - column;
  return i / run * slices.extent * slices.inner + first + column;
}

/// A chunk of a rank's slice that a block moves: elements [begin, begin + count), and how many
/// chunks the block has.
struct Chunk {
  index_t begin, count, of;
};

/// Chunk `number` of block `block`, of `blocks`, in a slice of `elements`. Blocks take chunks in
/// turn, so that all of them work on the elements that come first. A chunk has at most `chunk`
/// elements, or a block's share in whole vectors of `lanes`.
DEVICE constexpr Chunk chunk_range(index_t elements, index_t lanes, index_t block, index_t blocks,
                                   index_t chunk, index_t number) {
  const index_t share = (elements / lanes + blocks) / blocks * lanes;
  const index_t length = share < chunk ? share : chunk;
  const index_t chunks = elements > 0 ? (elements + length - 1) / length : 0;
  const index_t first = (number * blocks + block) * length;
  const index_t begin = first < elements ? first : elements;
  return Chunk{begin, elements - begin < length ? elements - begin : length,
               (chunks - block + blocks - 1) / blocks};
}

static_assert(sizeof(Slices) == 40 && OFFSET_OF(only, Slices) == 32);
