// Prelude, mailboxes: ranks send each other chunks of tensors inside a kernel.

/// The ranks that one takes from and passes on to. Their boxes have one number each, at the rank
/// that takes.
template <int R>
struct Links {
  int sources = 0, targets = 0;
  int source[R], source_box[R], target[R], target_box[R];
  int before = 0;  // sources whose values come before this rank's own in a reduction
  DEVICE_MEMBER void take_from(int rank, int box) {
    source[sources] = rank;
    source_box[sources++] = box;
  }
  DEVICE_MEMBER void pass_to(int rank, int box) {
    target[targets] = rank;
    target_box[targets++] = box;
  }
};

template <int N, class T>
DEVICE vec<N, T> load_slice(const T* whole, const Slices& slices, int rank, index_t i) {
  index_t room;
  const index_t at = element_of(slices, rank, i, room);
  if (N == 1 || room >= N) return load<N>(whole + at);
  vec<N, T> value;
  for (int l = 0; l < N; ++l) value[l] = whole[element_of(slices, rank, i + l, room)];
  return value;
}

template <int N, class T>
DEVICE void store_slice(T* whole, const Slices& slices, int rank, index_t i,
                        const vec<N, T>& value) {
  index_t room;
  const index_t at = element_of(slices, rank, i, room);
  if (N == 1 || room >= N) {
    store<N>(whole + at, value);
    return;
  }
  for (int l = 0; l < N; ++l) whole[element_of(slices, rank, i + l, room)] = value[l];
}

template <int N, class T>
DEVICE vec<1, T> lane_of(const vec<N, T>& value, int l) {
  vec<1, T> lane;
  lane[0] = value[l];
  return lane;
}

/// Calls f(width<N>, i, extra) if elements [i, i + N) are in one row of `columns` elements, and
/// else element by element.
template <int N, class T, class V, class F>
DEVICE vec<N, T> in_rows(index_t columns, index_t i, const V& extra, F f) {
  if constexpr (N == 1) {
    return f(width<1, false>{}, i, extra);
  } else {
    if (i % columns + N <= columns) return f(width<N, false>{}, i, extra);
    vec<N, T> value;
    for (int l = 0; l < N; ++l) {
      value[l] = f(width<1, false>{}, i + l, lane_of(extra, l))[0];
    }
    return value;
  }
}

/// Chunk `number` of the block, in a slice of `elements`; see `chunk_range`.
template <int W>
DEVICE Chunk chunk_of(const Block& block, index_t elements, index_t chunk, index_t number) {
  return chunk_range(elements, W, block.index, block.count, chunk, number);
}

// ---- protocols ----------------------------------------------------------------------------------
// How a chunk lies in a slot, and how its reader knows that it is there. `tag` is the chunk's
// number plus one.

/// What a reader needs to give up waiting for words that never come.
template <int R>
struct Reader {
  const Sync<R>& sync;
  index_t block;
  bool tells_waits;
  bool ok = true;
};

/// Bytes of a chunk from which on its stores go past the caches, where a kernel may do that.
/// Measured on 2 ranks: 1.4 to 13 times as fast from 8 KiB on, and 0.8 times at 2 KiB.
constexpr index_t STREAMED_CHUNK_BYTES = 4 << 10;

/// Waits until the upper half of `*cell` is `tag`, and returns the cell; not where another wait of
/// the reader was given up.
template <int R>
DEVICE_CALL u64 wait_for_cell(Reader<R>& reader, int peer, const u64* cell, u32 tag) {
  u64 found = 0;
  if (!reader.ok) return found;
  const u64 begun = wait_begins(reader.tells_waits);
  reader.ok = wait_until(
      reader.sync,
      [&] {
        found = load_relaxed(cell);
        return u32(found >> 32) == tag;
      },
      [&](u64 started) { return must_give_up(reader.sync, peer, started); });
  if (!reader.ok)
    report(reader.sync, RANK_MISSED, WAIT_FOR_MESSAGE, reader.block, peer, tag, found >> 32);
  wait_ends(reader.sync, begun);
  return found;
}

/// A chunk on its way through a rank: whom it comes from and goes to, and their slots.
template <int R>
struct Passage {
  Reader<R>& reader;
  const Links<R>& links;
  index_t count;
  u64 tag, mode;
  const u8* in[R];
  u8* out[R];
};

/// Elements as words of 32 bits: 8-byte types are two.
template <class T>
DEVICE u32 word_of(T x, int part) {
  if constexpr (sizeof(T) == 8) {
    return u32(__builtin_bit_cast(u64, x) >> 32 * part);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(u32, x);
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(unsigned short, x);
  } else {
    return __builtin_bit_cast(unsigned char, x);
  }
}
template <class T>
DEVICE T from_words(u32 low, u32 high) {
  if constexpr (sizeof(T) == 8) {
    return __builtin_bit_cast(T, u64(high) << 32 | low);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, low);
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, static_cast<unsigned short>(low));
  } else {
    return __builtin_bit_cast(T, static_cast<unsigned char>(low));
  }
}

/// What arrives of a chunk of C, for a protocol that takes and puts elements one after the other.
template <class P, class C, int R>
struct Incoming {
  const Passage<R>& chunk;
  template <int N>
  DEVICE_MEMBER vec<N, C> take(int source, index_t j) const {
    return P::template take<N, C>(chunk.reader, chunk.links.source[source], chunk.in[source], j,
                                  chunk.tag);
  }
};

/// Passes on a chunk with such a protocol: every thread takes, computes and puts elements of its
/// own. A slot was read by its owner before, so that its lines are in that processor's cache: what
/// is long enough goes past the caches, and needs not fetch them.
template <class P, int W, class C, class T, int R, class F>
DEVICE void pass_elements(const Block& block, const Passage<R>& chunk, F f) {
  const bool is_long = chunk.count * index_t(sizeof(T)) >= STREAMED_CHUNK_BYTES;
  const u64 mode = P::STREAMS && is_long ? chunk.mode : chunk.mode & ~u64(STREAMING);
  const Incoming<P, C, R> incoming{chunk};
  for_each<W>(alone(block), chunk.count, mode,
              [&]<int N, bool STREAM>(width<N, STREAM>, index_t j) {
                const vec<N, T> value = f(width<N, false>{}, j, incoming);
                // What is computed from cells that have not come must reach nobody.
                if constexpr (!P::FLAGGED) {
                  if (!chunk.reader.ok) return;
                }
                ROLLED
                for (int t = 0; t < chunk.links.targets; ++t)
                  P::template put<STREAM, N, T>(chunk.out[t], j, chunk.tag, value);
              });
}

/// The elements one after the other; a flag beside the box says that all of them are there.
struct simple {
  static constexpr bool FLAGGED = true, STREAMS = true;

  template <int W, class C, class T, int R, class F>
  DEVICE void pass(const Block& block, const Passage<R>& chunk, F f) {
    pass_elements<simple, W, C, T>(block, chunk, f);
  }
  template <int N, class T, int R>
  DEVICE vec<N, T> take(Reader<R>&, int, const u8* slot, index_t j, u64) {
    return load<N>(reinterpret_cast<const T*>(slot) + j);
  }
  template <bool STREAM, int N, class T>
  DEVICE void put(u8* slot, index_t j, u64, const vec<N, T>& value) {
    T* const to = reinterpret_cast<T*>(slot) + j;
    if (STREAM) {
      stream<N>(to, value);
    } else {
      store<N>(to, value);
    }
  }
};

/// A cell of 8 bytes is 4 of data and 4 of the tag: no flag to wait for, and half of the bytes. Two
/// cells may be one access: each of them comes whole, and has its own tag.
struct ll {
  static constexpr bool FLAGGED = false, STREAMS = false;
  template <class T>
  static constexpr int CELLS = sizeof(T) == 8 ? 2 : 1;  // of an element

  template <int W, class C, class T, int R, class F>
  DEVICE void pass(const Block& block, const Passage<R>& chunk, F f) {
    constexpr int cells = CELLS<C> > CELLS<T> ? CELLS<C> : CELLS<T>;
    pass_elements<ll, CELL_LANES<W, cells>, C, T>(block, chunk, f);
  }
  template <int N, class T, int R>
  DEVICE vec<N, T> take(Reader<R>& reader, int peer, const u8* slot, index_t j, u64 tag) {
    constexpr int cells = N * CELLS<T>, at_once = cells < 2 ? 1 : 2;
    const u64* const from = reinterpret_cast<const u64*>(slot) + j * CELLS<T>;
    u32 words[cells];
    UNROLL
    for (int cell = 0; cell < cells; cell += at_once) {
      u64 found[at_once];
      load_relaxed(from + cell, found);
      for (int k = 0; k < at_once; ++k) {
        if (u32(found[k] >> 32) != u32(tag))
          found[k] = wait_for_cell(reader, peer, from + cell + k, u32(tag));
        words[cell + k] = u32(found[k]);
      }
    }
    vec<N, T> value;
    UNROLL
    for (int l = 0; l < N; ++l)
      value[l] = from_words<T>(words[l * CELLS<T>], words[l * CELLS<T> + CELLS<T> - 1]);
    return value;
  }
  template <bool, int N, class T>
  DEVICE void put(u8* slot, index_t j, u64 tag, const vec<N, T>& value) {
    constexpr int cells = N * CELLS<T>, at_once = cells < 2 ? 1 : 2;
    u64* const to = reinterpret_cast<u64*>(slot) + j * CELLS<T>;
    UNROLL
    for (int cell = 0; cell < cells; cell += at_once) {
      u64 made[at_once];
      for (int k = 0; k < at_once; ++k) {
        const int at = cell + k;
        made[k] = u64(u32(tag)) << 32 | word_of(value[at / CELLS<T>], at % CELLS<T>);
      }
      store_relaxed(to + cell, made);
    }
  }
};

// ---- events -------------------------------------------------------------------------------------

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
