// Prelude, mailboxes: which ranks a rank takes chunks from, and how chunks lie in slots.

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
