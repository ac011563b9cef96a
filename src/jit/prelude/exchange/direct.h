// Prelude, algorithm "direct": every rank reads its slice from all ranks and writes results to all
// ranks.

/// Elements [at, at + N) of all ranks' arrays, reduced with Op in rank order, in the computation
/// type. STREAM says that the arrays are long.
template <class Op, int N, bool STREAM, int R, class T>
DEVICE vec<N, typename wide_type<T>::type> reduce_ranks(T* const (&ranks)[R], index_t at) {
  UNROLL
  for (int rank = 0; STREAM && rank < R; ++rank) fetch_ahead(ranks[rank] + at);
  auto total = widened(load<N>(ranks[0] + at));
  UNROLL
  for (int rank = 1; rank < R; ++rank) {
    const auto next = widened(load<N>(ranks[rank] + at));
    lanes<N>([&](int l) { total[l] = Op::apply(total[l], next[l]); });
  }
  return total;
}

/// Writes `value` to elements [at, at + N) of all ranks' arrays; STREAM sends the others' past the
/// caches.
template <bool STREAM, int N, int R, class T>
DEVICE void store_ranks(T* const (&ranks)[R], index_t at, u64 own_rank, const vec<N, T>& value) {
  UNROLL
  for (int rank = 0; rank < R; ++rank) {
    if (STREAM && u64(rank) != own_rank) {
      stream<N>(ranks[rank] + at, value);
    } else {
      store<N>(ranks[rank] + at, value);
    }
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
