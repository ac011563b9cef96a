// Prelude, the half that host and CUDA share: waiting for other ranks, and their barrier.

/// Says why the kernel gives up, unless another wait has done so.
template <int R>
DEVICE_CALL void report(const Sync<R>& sync, u64 code, u64 phase, index_t block, int peer,
                        u64 expected, u64 found) {
  if (!claim(&sync.fault->code, code)) return;
  sync.fault->step = sync.step;
  sync.fault->phase = phase;
  sync.fault->block = u64(block);
  sync.fault->peer = u64(peer);
  sync.fault->expected = expected;
  sync.fault->found = found;
}

/// Whether this thread tells how long its block waits.
template <int R>
DEVICE bool tells_waits(const Block& block, const Sync<R>& sync) {
  return TELLS_WAITS && sync.waited != nullptr && is_leader(block);
}
/// When a wait began; 0 where this thread does not tell.
DEVICE u64 wait_begins(bool tells) { return tells ? now() : 0; }
/// Adds how long it was.
template <int R>
DEVICE void wait_ends(const Sync<R>& sync, u64 begun) {
  if (begun != 0) add_release(sync.waited, now() - begun);
}

/// Whether a wait for `peer` that began at `started` must be given up: it takes too long, that rank
/// is gone, or another wait of this launch, or of one before it in the step, was given up. What a
/// rank signalled before there was a notice of it is visible after.
template <int R>
DEVICE bool must_give_up(const Sync<R>& sync, int peer, u64 started) {
  const u64* const notice = sync.notices + u64(peer) * sync.notice_stride;
  return now() - started > sync.timeout || (load_relaxed(notice) != 0 && observe(notice) != 0) ||
         load_relaxed(&sync.fault->code) != 0;
}

/// Every wait for another rank: looks until `look()` finds what it is for, or `give_up(started)`
/// says that it must be given up. Whether it was found. It looks for the data, then for a notice,
/// and then for the data once more: a rank that has done its part and left is not missed.
template <int R, class Look, class GiveUp>
DEVICE bool wait_until(const Sync<R>& sync, Look look, GiveUp give_up) {
  bool gives_up = false;
  u64 started = 0;
  for (u64 looks = 1; !look(); ++looks) {
    if (gives_up) return false;
    relax(looks, sync.spin_limit);
    if (looks % 64 == 0) {
      if (started == 0) started = now();
      gives_up = give_up(started);
    }
  }
  return true;
}

/// Looks at `*word` until it is at least `target`, or the wait for `peer` is given up, and returns
/// what it found. What was written before the word was signalled is visible after. Only the last
/// look acquires: on a GPU each that does empties the first cache.
template <int R>
DEVICE_CALL u64 look_until(const Sync<R>& sync, int peer, const u64* word, u64 target) {
  wait_until(
      sync, [&] { return load_relaxed(word) >= target; },
      [&](u64 started) { return must_give_up(sync, peer, started); });
  return observe(word);
}

/// Waits for rank `peer` to raise a flag of the barriers to `own`, as this rank does: one that is
/// further on has found that all agree. False when it is missed, refuses, or was given otherwise.
template <int R>
DEVICE bool wait_for_rank(const Sync<R>& sync, const u64* flag, u64 own, u64 phase, index_t block,
                          int peer) {
  const u64 epoch = epoch_of(own);
  const u64 found = look_until(handed_on(sync), peer, flag, barrier_value(epoch, 0, false));
  const bool ok = found == own || epoch_of(found) > epoch;
  if (!ok) {
    const u64 code = epoch_of(found) < epoch ? RANK_MISSED
                     : (found & 1) != 0      ? RANK_REFUSED
                                             : RANK_DISAGREES;
    report(handed_on(sync), code, phase, block, peer, epoch, epoch_of(found));
  }
  return ok;
}

/// What a barrier puts in order, beside accesses by a rank's own addresses: those by multicast
/// addresses after it, or those before it.
enum { OWN_ADDRESSES, MULTICAST_AFTER, MULTICAST_BEFORE };

/// Raises the flag of this rank and of block `of_block` to `value` at all ranks but `except`, and
/// waits for theirs. Each rank has a thread that signals to it, and one that waits for it: together
/// they are one instruction, with one fence. Whatever else is ordered they fence, too, as what
/// another thread did or does with other ranks comes by way of them.
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE void signal_ranks(const Block& block, const Sync<R>& sync, index_t of_block, u64 value,
                         u64 except) {
  for_each_thread(block, R, [&](index_t peer) {
    if (u64(peer) == except) return;
    if constexpr (ORDERS == MULTICAST_BEFORE) order_multicast();
    signal(sync.flags[peer] + barrier_flag(of_block, index_t(sync.rank), R), value);
  });
}
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE bool await_ranks(const Block& block, const Sync<R>& sync, index_t of_block, u64 value,
                        u64 phase, u64 except) {
  const u64 begun = wait_begins(tells_waits(block, sync));
  bool ok = true;
  for_each_thread(block, R, [&](index_t peer) {
    if (u64(peer) == except || !ok) return;
    ok = wait_for_rank(sync, sync.own_flags + barrier_flag(of_block, peer, R), value, phase,
                       block.index, int(peer));
    if constexpr (ORDERS == MULTICAST_AFTER) order_multicast();
  });
  ok = all_in_block(block, ok);
  wait_ends(sync, begun);
  return ok;
}

/// Waits until every rank's block of the same index is here; what they wrote before is visible
/// after. False, for all threads of the block, when a rank is missed or refuses. Of accesses by
/// multicast addresses, it orders those that it is told to.
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE bool rank_barrier(const Block& block, const Sync<R>& sync, u64 phase) {
  block_barrier(block);
  const u64 target = barrier_value(sync.epoch + phase, sync.given, false);
  signal_ranks<ORDERS>(block, sync, block.index, target, sync.rank);
  return await_ranks<ORDERS>(block, sync, block.index, target, phase, sync.rank);
}

/// Whether this is the last of `parts` times that a block of the rank comes here. It then sees what
/// the others' leaders wrote before. `arrived` counts them, and is 0 again after.
DEVICE bool is_last(const Block& block, u64* arrived, index_t parts) {
  bool last = true;
  if (is_leader(block) && parts > 1) {
    last = arrive(arrived) + 1 == u64(parts);
    if (last) *arrived = 0;
  }
  return all_in_block(block, last);
}

/// The totals in `count` words as one, combined in an order that their number and the block decide.
template <class Op, class T>
DEVICE T fold_words(const Block& block, const u64* words, index_t count) {
  return block_reduce<1, Op, T>(block, 0, count, 0, [&]<int N>(width<N, false>, index_t i) {
    vec<N, T> one;
    one[0] = *reinterpret_cast<const T*>(words + i);
    return one;
  });
}

/// A `rank_barrier` for all blocks of all ranks, which hand each other totals: `send` is called by
/// the last block of a rank, for all of them.
template <int R, int COUNT, class F>
DEVICE bool grid_barrier(const Block& block, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                         u64 phase, F send) {
  const u64 target = barrier_value(sync.epoch + phase, sync.given, false);
  if (is_last(block, totals.of[sync.rank], block.count)) {
    send();
    signal_ranks(block, sync, WHOLE_GRID, target, u64(R));
  }
  return await_ranks(block, sync, WHOLE_GRID, target, phase, u64(R));
}

/// Leaves total `index` of a share, as `for_each_share` has it, to the last block of its rank.
template <int R, int COUNT, class T>
DEVICE void put_total(const Block& share, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                      int index, T total) {
  if (!is_leader(share)) return;
  const index_t at = share_total_word(COUNT, R, index, share.count, share.index);
  *reinterpret_cast<T*>(totals.of[sync.rank] + at) = total;
}

/// Sends total `index` of all shares of this rank to all ranks: combined in an order that their
/// number alone decides, whichever block does it.
template <class Op, class T, int R, int COUNT>
DEVICE void send_total(const Block& block, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                       int index) {
  const index_t shares = shares_in(block, totals);
  const u64* const own = totals.of[sync.rank] + share_total_word(COUNT, R, index, shares, 0);
  const T total = fold_words<Op, T>(block, own, shares);
  const index_t at = total_word(totals.turn, COUNT, R, index, index_t(sync.rank));
  for_each_thread(block, R,
                  [&](index_t peer) { *reinterpret_cast<T*>(totals.of[peer] + at) = total; });
}

/// Total `index` of all ranks, combined in their order.
template <class Op, class T, int R, int COUNT>
DEVICE T all_totals(const Sync<R>& sync, const Totals<R, COUNT>& totals, int index) {
  const u64* const all = totals.of[sync.rank] + total_word(totals.turn, COUNT, R, index, 0);
  T total = *reinterpret_cast<const T*>(all);
  UNROLL
  for (int rank = 1; rank < R; ++rank)
    total = Op::apply(total, *reinterpret_cast<const T*>(all + rank));
  return total;
}
