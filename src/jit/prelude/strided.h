// Prelude: vectors of elements that are apart in memory, as in a row of a transposed tensor.

/// N elements, each `stride` behind the one before.
template <int N, class T>
DEVICE vec<N, T> load_strided(const T* from, index_t stride) {
  vec<N, T> value;
  lanes<N>([&](int l) { value[l] = from[l * stride]; });
  return value;
}
