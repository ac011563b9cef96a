// Prelude, algorithm "multimem": as "direct", but through an address behind which the arrays of all
// ranks are. The switch between GPUs adds what is loaded from there, in an order of its own, and
// copies what is stored.

/// Elements [at, at + N) of all ranks' arrays, reduced with Op, in the computation type: by the
/// switch, which rounds to T, where it can; else in rank order.
template <class Op, int N, bool STREAM, int R, class T>
DEVICE vec<N, typename wide_type<T>::type> reduce_ranks(const Multicast<T, R>& ranks, index_t at) {
  if constexpr (R > 1 && switch_total<Op, N, T>::exists) {
    return widened(switch_total<Op, N, T>::load(ranks.all + at));
  } else {
    return reduce_ranks<Op, N, STREAM>(ranks.rank, at);
  }
}

/// Writes `value` to elements [at, at + N) of all ranks' arrays.
template <bool STREAM, int N, int R, class T>
DEVICE void store_ranks(const Multicast<T, R>& ranks, T* own, index_t at, const vec<N, T>& value) {
  if constexpr (R > 1 && switch_copy<N * sizeof(T)>::exists) {
    switch_copy<N * sizeof(T)>::store(ranks.all + at, &value);
  } else {
    store_ranks<STREAM>(ranks.rank, own, at, value);
  }
}

template <int R, class T>
DEVICE T* own_of(const Multicast<T, R>& ranks, u64 own_rank) {
  return own_of(ranks.rank, own_rank);
}
template <int R, class T>
DEVICE void stream_ranks(const Multicast<T, R>& ranks, const T* own, index_t at, index_t count) {
  stream_ranks(ranks.rank, own, at, count);
}
