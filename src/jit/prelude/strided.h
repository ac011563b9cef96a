// Prelude: vectors of elements that are apart in memory, as in a row of a transposed tensor.

/// N elements, each `stride` behind the one before.
template <int N, class T>
DEVICE vec<N, T> load_strided(const T* from, index_t stride) {
  vec<N, T> value;
  lanes<N>([&](int l) { value[l] = from[l * stride]; });
  return value;
}

/// Calls f(row, begin, end) for parts [begin, end) of rows, those of neighbouring rows one after
/// the other: what is fetched for a row that is strided has elements of the next rows, too. The
/// parts are whole vectors but for a row's last.
template <class B, class F>
DEVICE void for_each_tile(const B& block, index_t rows, index_t columns, F f) {
  index_t down = 16, across = 128;  // a line of the host's caches has 16 f32
  if constexpr (requires { block.threads; }) {
    down = 8;  // as has a sector of a GPU's
    across = index_t(block.threads) * 4;
  }
  const index_t beside = (columns + across - 1) / across;
  const index_t tiles = (rows + down - 1) / down * beside;
  for (index_t tile = block.index; tile < tiles; tile += block.count) {
    const index_t first = tile / beside * down, begin = tile % beside * across;
    const index_t after = first + down < rows ? first + down : rows;
    const index_t end = begin + across < columns ? begin + across : columns;
    for (index_t row = first; row < after; ++row) f(row, begin, end);
  }
}
