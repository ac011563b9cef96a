// Prelude, mailboxes: ranks send each other chunks of tensors inside a kernel.

template <class Topology, int R>
DEVICE MailboxLayout layout_of(const Block& block) {
  static_assert(Topology::BOXES % 2 == 0);  // so that slots begin with a line
  return MailboxLayout{Topology::BOXES * R, R, block.count};
}
template <class Topology, int R>
DEVICE u64* filled_flag(const Block& block, const Mailboxes<R>& mailboxes, int rank, int box) {
  return reinterpret_cast<u64*>(mailboxes.memory[rank]) +
         layout_of<Topology, R>(block).filled(block.index, box);
}
/// At the sender: what `receiver` has taken from its box.
template <class Topology, int R>
DEVICE u64* emptied_flag(const Block& block, const Mailboxes<R>& mailboxes, int sender,
                         int receiver, int box) {
  return reinterpret_cast<u64*>(mailboxes.memory[sender]) +
         layout_of<Topology, R>(block).emptied(block.index, box, receiver);
}
template <class Topology, int R>
DEVICE u8* slot_of(const Block& block, const Mailboxes<R>& mailboxes, int rank, int box,
                   u64 number) {
  return mailboxes.memory[rank] +
         layout_of<Topology, R>(block).slot(
             block.index, box, index_t(number / Topology::TREES % SLOTS), mailboxes.slot_bytes);
}

/// Takes a chunk of `count` elements of C from each source and hands one of T to each target:
/// f(width<N>, j, incoming) is elements [j, j + N) of it. `index` is the chunk's in this launch, of
/// `of` that these links carry. False, for all threads, when a rank is missed.
template <class Topology, class P, int W, class C, class T, int R, class F>
DEVICE bool pass_chunk(const Block& block, const Sync<R>& sync, const Mailboxes<R>& mailboxes,
                       const Links<R>& links, index_t index, index_t of, index_t count, u64 mode,
                       F f) {
  constexpr index_t DEPTH = SLOTS * Topology::TREES;
  const int rank = int(sync.rank);
  const u64 number = mailboxes.first + u64(index);
  const u64 tag = number + 1;
  // The chunk that was in the slot before: of this launch, or the last one that the launch before
  // put there.
  const index_t before = index >= DEPTH ? index - DEPTH : index + (of - 1 - index) / DEPTH * DEPTH;
  const u64 taken = index >= DEPTH         ? mailboxes.first + u64(before) + 1
                    : mailboxes.first == 0 ? 0
                                           : mailboxes.first - mailboxes.chunks + u64(before) + 1;
  const u64 begun = wait_begins(tells_waits(block, sync));
  // A thread for each flag: of the slots to fill, then of the chunks to take.
  bool ok = true;
  for_each_thread(block, links.targets + (P::FLAGGED ? links.sources : 0), [&](index_t i) {
    if (!ok) return;
    const bool room = i < links.targets;
    const int link = int(room ? i : i - links.targets);
    const int peer = room ? links.target[link] : links.source[link];
    const u64* const flag =
        room ? emptied_flag<Topology>(block, mailboxes, rank, peer, links.target_box[link])
             : filled_flag<Topology>(block, mailboxes, rank, links.source_box[link]);
    const u64 due = room ? taken : tag;
    const u64 found = look_until(sync, peer, flag, due);
    ok = found >= due;
    if (!ok) {
      report(sync, RANK_MISSED, room ? WAIT_FOR_ROOM : WAIT_FOR_MESSAGE, block.index, peer, due,
             found);
    }
  });
  ok = all_in_block(block, ok);
  wait_ends(sync, begun);
  if (!ok) return false;

  Reader<R> reader{sync, block.index, tells_waits(block, sync)};
  Passage<R> chunk{reader, links, count, tag, mode, {}, {}};
  ROLLED
  for (int s = 0; s < links.sources; ++s) {
    chunk.in[s] = slot_of<Topology>(block, mailboxes, rank, links.source_box[s], number);
  }
  ROLLED
  for (int t = 0; t < links.targets; ++t) {
    chunk.out[t] =
        slot_of<Topology>(block, mailboxes, links.target[t], links.target_box[t], number);
  }
  P::template pass<W, C, T>(block, chunk, f);
  if (!all_in_block(block, reader.ok)) return false;
  // A thread for each flag: of the slots emptied, then of those filled.
  for_each_thread(block, links.sources + (P::FLAGGED ? links.targets : 0), [&](index_t i) {
    const bool fills = i >= links.sources;
    const int link = int(fills ? i - links.sources : i);
    u64* const flag =
        fills ? filled_flag<Topology>(block, mailboxes, links.target[link], links.target_box[link])
              : emptied_flag<Topology>(block, mailboxes, links.source[link], rank,
                                       links.source_box[link]);
    signal(flag, tag);
  });
  return true;
}

/// Nothing arrives and nothing departs while an exchange runs.
struct no_tile_sync {
  DEVICE_MEMBER bool await(int, index_t, index_t) const { return true; }
  DEVICE_MEMBER void made(index_t, index_t) const {}
  DEVICE_MEMBER void kept(int, index_t, index_t) const {}
};

/// The exchange of a collective: slices are combined on the way up to their owners, if UP, and what
/// the owners make of them is handed down to all ranks, if DOWN.
///   own(width<N>, owner, i)      this rank's elements [i, i + N) of the owner's slice, in C
///   make(width<N>, i, combined)  what the owner hands down of its slice, in T
///   keep(width<N>, owner, i, v)  stores what an owner handed down
///   tile_sync                    what happens between chunks; see TileSync
template <class Topology, class P, class Op, int W, bool UP, bool DOWN, class C, class T, int R,
          class Own, class Make, class Keep, class Tiled>
struct Exchange {
  const Block& block;
  const Sync<R>& sync;
  const Mailboxes<R>& mailboxes;
  const Slices& slices;
  u64 mode;
  Own own;
  Make make;
  Keep keep;
  Tiled tile_sync;

  DEVICE_MEMBER Chunk chunk(int owner, index_t c) const {
    return chunk_of<W>(block, slices.count(owner), mailboxes.chunk, c);
  }
  /// Element j of a chunk, which is element i of the owner's slice, over the sources and this rank
  /// in the order that `links` gives.
  template <int N, class In>
  DEVICE_MEMBER vec<N, C> combine(int owner, index_t i, index_t j, const Links<R>& links,
                                  const In& in) const {
    vec<N, C> total =
        links.before > 0 ? in.template take<N>(0, j) : own(width<N, false>{}, owner, i);
    ROLLED
    for (int s = 1; s <= links.sources; ++s) {
      const vec<N, C> next = s == links.before ? own(width<N, false>{}, owner, i)
                                               : in.template take<N>(s - (s > links.before), j);
      lanes<N>([&](int l) { total[l] = Op::apply(total[l], next[l]); });
    }
    return total;
  }
  /// Chunk c of a slice of another rank, on its way up to it.
  DEVICE_PART bool pass_up(int owner, index_t c, int tree) const {
    const Chunk part = chunk(owner, c);
    if (part.count == 0) return true;
    if (!tile_sync.await(owner, part.begin, part.count)) return false;
    const Links<R> links = Topology::template up<R>(int(sync.rank), owner, tree);
    return pass_chunk<Topology, P, W, C, C>(
        block, sync, mailboxes, links, c, part.of, part.count, mode,
        [&]<int N>(width<N, false>, index_t j, const auto& in) {
          return combine<N>(owner, part.begin + j, j, links, in);
        });
  }
  /// Chunk c of this rank's own slice: from those below it, through `make`, to those below it.
  DEVICE_PART bool turn(index_t c, int tree) const {
    const int rank = int(sync.rank);
    const Chunk part = chunk(rank, c);
    if (part.count == 0) return true;
    if (!tile_sync.await(rank, part.begin, part.count)) return false;
    Links<R> links;
    if (UP) links = Topology::template up<R>(rank, rank, tree);
    const Links<R> down = Topology::template down<R>(rank, rank, tree);
    for (int t = 0; DOWN && t < down.targets; ++t)
      links.pass_to(down.target[t], down.target_box[t]);
    const bool ok = pass_chunk<Topology, P, W, C, T>(
        block, sync, mailboxes, links, c, part.of, part.count, mode,
        [&]<int N>(width<N, false>, index_t j, const auto& in) {
          if constexpr (UP) {
            return make(width<N, false>{}, part.begin + j,
                        combine<N>(rank, part.begin + j, j, links, in));
          } else {
            return make(width<N, false>{}, part.begin + j, vec<N, C>{});
          }
        });
    if (!ok) return false;
    tile_sync.made(part.begin, part.count);
    if (DOWN) tile_sync.kept(rank, part.begin, part.count);
    return true;
  }
  /// Chunk c of what another rank made, on its way down.
  DEVICE_PART bool pass_down(int owner, index_t c, int tree) const {
    const Chunk part = chunk(owner, c);
    if (part.count == 0) return true;
    const Links<R> links = Topology::template down<R>(int(sync.rank), owner, tree);
    const bool ok = pass_chunk<Topology, P, W, T, T>(
        block, sync, mailboxes, links, c, part.of, part.count, mode,
        [&]<int N>(width<N, false>, index_t j, const auto& in) {
          const vec<N, T> value = in.template take<N>(0, j);
          keep(width<N, false>{}, owner, part.begin + j, value);
          return value;
        });
    if (ok) tile_sync.kept(owner, part.begin, part.count);
    return ok;
  }
  /// Chunk by chunk, slices are taken in an order in which whatever a rank waits for has been begun
  /// before.
  DEVICE_MEMBER bool run() const {
    index_t chunks = 0;
    for (int owner = 0; owner < R; ++owner) {
      const index_t of = chunk(owner, 0).of;
      chunks = of > chunks ? of : chunks;
    }
    const int rank = int(sync.rank);
    ROLLED
    for (index_t c = 0; c < chunks; ++c) {
      const int tree = int(c % Topology::TREES);
      ROLLED
      for (int k = 0; UP && k < R - 1; ++k) if constexpr (UP) {
        if (!pass_up(Topology::up_owner(rank, k, R, tree), c, tree)) return false;
      }
      if (!turn(c, tree)) return false;
      ROLLED
      for (int k = 0; DOWN && k < R - 1; ++k) if constexpr (DOWN) {
        if (!pass_down(Topology::down_owner(rank, k, R, tree), c, tree)) return false;
      }
    }
    return true;
  }
};

template <class Topology, class P, class Op, int W, bool UP, bool DOWN, class C, class T, int R,
          class Own, class Make, class Keep, class Tiled = no_tile_sync>
DEVICE bool exchange(const Block& block, const Sync<R>& sync, const Mailboxes<R>& mailboxes,
                     const Slices& slices, u64 mode, Own own, Make make, Keep keep,
                     Tiled tile_sync = {}) {
  return Exchange<Topology, P, Op, W, UP, DOWN, C, T, R, Own, Make, Keep, Tiled>{
      block, sync, mailboxes, slices, mode, own, make, keep, tile_sync}
      .run();
}

/// A send: what every rank makes of its elements goes to the one `offset` further, if there is one;
/// who is behind none keeps zeros. `make`, `keep` and `tile_sync` are as in `exchange`.
template <class Topology, class P, int W, class T, int R, class Make, class Keep,
          class Tiled = no_tile_sync>
DEVICE bool pass_on(const Block& block, const Sync<R>& sync, const Mailboxes<R>& mailboxes,
                    const Slices& slices, u64 mode, int offset, Make make, Keep keep,
                    Tiled tile_sync = {}) {
  const int rank = int(sync.rank);
  const auto is_rank = [](int other) { return other >= 0 && other < R; };
  Links<R> to, from;
  if (is_rank(rank + offset)) to.pass_to(rank + offset, rank);
  if (is_rank(rank - offset)) from.take_from(rank - offset, rank - offset);
  const index_t elements = slices.extent;
  const index_t chunks = chunk_of<W>(block, elements, mailboxes.chunk, 0).of;
  ROLLED
  for (index_t c = 0; c < chunks; ++c) {
    const Chunk part = chunk_of<W>(block, elements, mailboxes.chunk, c);
    if (!tile_sync.await(rank, part.begin, part.count)) return false;
    if (!pass_chunk<Topology, P, W, T, T>(
            block, sync, mailboxes, to, c, part.of, part.count, mode,
            [&]<int N>(width<N, false>, index_t j, const auto&) {
              return make(width<N, false>{}, part.begin + j, vec<N, f32>{});
            })) {
      return false;
    }
    tile_sync.made(part.begin, part.count);
    if (!pass_chunk<Topology, P, W, T, T>(
            block, sync, mailboxes, from, c, part.of, part.count, mode,
            [&]<int N>(width<N, false>, index_t j, const auto& in) {
              const vec<N, T> value = from.sources > 0 ? in.template take<N>(0, j) : vec<N, T>{};
              keep(width<N, false>{}, 0, part.begin + j, value);
              return value;
            })) {
      return false;
    }
    tile_sync.kept(0, part.begin, part.count);
  }
  return true;
}
