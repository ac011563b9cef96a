// Prelude, algorithm "direct": every rank reads its slice from all ranks and writes results to all
// ranks.

/// Elements [at, at + N) of all ranks' arrays, reduced with Op in rank order, in the computation
/// type. STREAM says that the arrays are long; a loop over elements that fetched ahead would not
/// become vectors.
template <class Op, int N, bool STREAM, int R, class T>
DEVICE vec<N, typename wide_type<T>::type> reduce_ranks(T* const (&ranks)[R], index_t at) {
  UNROLL
  for (int rank = 0; STREAM && N > 1 && rank < R; ++rank) fetch_ahead(ranks[rank] + at);
  auto total = widened(load<N>(ranks[0] + at));
  UNROLL
  for (int rank = 1; rank < R; ++rank) {
    const auto next = widened(load<N>(ranks[rank] + at));
    lanes<N>([&](int l) { total[l] = Op::apply(total[l], next[l]); });
  }
  return total;
}

/// This rank's own of all ranks' arrays. Chosen, not indexed: clang keeps all arguments in memory
/// where it indexes one with a number that it does not know.
template <int R, class T>
DEVICE T* own_of(T* const (&ranks)[R], u64 own_rank) {
  T* own = ranks[0];
  UNROLL
  for (int rank = 1; rank < R; ++rank) own = u64(rank) == own_rank ? ranks[rank] : own;
  return own;
}

/// Writes `value` to elements [at, at + N) of all ranks' arrays; STREAM leaves all but `own` to
/// `stream_ranks`.
template <bool STREAM, int N, int R, class T>
DEVICE void store_ranks(T* const (&ranks)[R], T* own, index_t at, const vec<N, T>& value) {
  if constexpr (STREAM) {
    store<N>(own + at, value);
  } else {
    UNROLL
    for (int rank = 0; rank < R; ++rank) store<N>(ranks[rank] + at, value);
  }
}

/// Copies elements [at, at + count) of `own` to all other ranks' arrays, past the caches.
template <int R, class T>
DEVICE void stream_ranks(T* const (&ranks)[R], const T* own, index_t at, index_t count) {
  for (int rank = 0; rank < R; ++rank) {
    if (ranks[rank] != own) stream_copy(ranks[rank] + at, own + at, count);
  }
}

/// Writes `value` to elements [at, at + N) of the rank `offset` further, and zeros to this rank's
/// where nobody sends.
template <bool STREAM, int N, int R, class T>
DEVICE void send_on(T* const (&ranks)[R], index_t at, u64 own_rank, int offset,
                    const vec<N, T>& value) {
  const int own = int(own_rank);
  if (own + offset >= 0 && own + offset < R) {
    if (STREAM) {
      stream<N>(ranks[own + offset] + at, value);
    } else {
      store<N>(ranks[own + offset] + at, value);
    }
  }
  if (own - offset < 0 || own - offset >= R) store<N>(ranks[own] + at, vec<N, T>{});
}
