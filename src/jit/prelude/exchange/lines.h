// Prelude, the protocol ll128: every line of 128 bytes is 120 of data and 8 of the chunk's tag. A
// team of lanes moves a line as one access of memory, in which the flag comes no earlier than the
// data. Where a block is one lane, that is the team.
//
// A pair of lines is 60 elements, as words of 4 bytes. Lane k of a team whose lanes have SHARE
// words of a line has words [SHARE * k, SHARE * (k + 1)) of both: in the first line elements of the
// same numbers, in the second one those that are 32 further. So they are aligned where the pair is.
// Where elements 30 and 31 would be is the first line's flag: the last lane has them in the second
// line, before that one's flag. The last pair may be the first line alone. 8-byte elements have two
// such pairs, of their low words and of their high words.

constexpr int LINE_WORDS = LINE_BYTES / 4;
constexpr int SHARE = LINE_WORDS / TEAM;
constexpr index_t PAIR_ELEMENTS = 2 * LINE_ELEMENTS;

/// What a lane has of a pair of lines: SHARE words of the first one, then those of the second.
template <class T>
struct alignas(16) Share {
  static constexpr int PARTS = sizeof(T) == 8 ? 2 : 1;
  u32 words[PARTS][2 * SHARE];

  template <int N>
  DEVICE_MEMBER vec<N, T> get(int at) const {
    vec<N, T> value;
    lanes<N>([&](int l) { value[l] = from_words<T>(words[0][at + l], words[PARTS - 1][at + l]); });
    return value;
  }
  template <int N>
  DEVICE_MEMBER void set(int at, const vec<N, T>& value) {
    for (int part = 0; part < PARTS; ++part)
      lanes<N>([&](int l) { words[part][at + l] = word_of(value[l], part); });
  }
  /// The last lane's elements 30 and 31, from where the second line has them to where they are in
  /// order, and back.
  DEVICE_MEMBER void gather() {
    for (int part = 0; part < PARTS; ++part) {
      for (int l = 0; l < 2; ++l) words[part][SHARE - 2 + l] = words[part][2 * SHARE - 4 + l];
    }
  }
  DEVICE_MEMBER void scatter() {
    for (int part = 0; part < PARTS; ++part) {
      for (int l = 0; l < 2; ++l) words[part][2 * SHARE - 4 + l] = words[part][SHARE - 2 + l];
    }
  }
};

/// What a lane has of a pair of lines of each source. Which elements are taken is where `at` is.
template <class C, int R>
struct ArrivedLines {
  Share<C> from[R];
  int at;
  template <int N>
  DEVICE_MEMBER vec<N, C> take(int source, index_t) const {
    return from[source].template get<N>(at);
  }
};

/// Waits until `lines` lines have the flag `tag`, and loads the lane's words of them. A team gives
/// up together, when its last lane does. The block is a copy, so that registers can hold the
/// caller's.
template <int R>
DEVICE_CALL void wait_for_lines(Block block, Reader<R>& reader, int peer, const u8* at, int lines,
                                u64 tag, u32* words) {
  if (!reader.ok) return;
  const u64 begun = wait_begins(reader.tells_waits);
  u64 found = 0;
  reader.ok = wait_until(
      reader.sync,
      [&] {
        found = load_lines(block, at, lines, tag, words);
        return found >= tag;
      },
      [&](u64 started) {
        return of_last_lane(block, must_give_up(reader.sync, peer, started)) != 0;
      });
  if (!reader.ok)
    report(reader.sync, RANK_MISSED, WAIT_FOR_MESSAGE, reader.block, peer, tag, found);
  wait_ends(reader.sync, begun);
}

struct ll128 {
  static constexpr bool FLAGGED = false;

  /// A pair of lines at a time: fetched from all sources by the whole team, computed by each lane
  /// for itself, and stored to all targets by the whole team.
  template <int W, class C, class T, int R, class F>
  DEVICE void pass(const Block& block, const Passage<R>& chunk, F f) {
    const Links<R>& links = chunk.links;
    const bool is_last = team_lane(block) == TEAM - 1;
    for_each_team(block, (chunk.count + PAIR_ELEMENTS - 1) / PAIR_ELEMENTS, [&](index_t pair) {
      const index_t begin = pair * PAIR_ELEMENTS;
      const index_t end = begin + PAIR_ELEMENTS < chunk.count ? begin + PAIR_ELEMENTS : chunk.count;
      const int lines = end - begin > PAIR_ELEMENTS / 2 ? 2 : 1;
      ArrivedLines<C, R> arrived;
      ROLLED
      for (int s = 0; s < links.sources; ++s) {
        Share<C>& share = arrived.from[s];
        for (int part = 0; part < Share<C>::PARTS; ++part) {
          const u8* const at =
              chunk.in[s] + (pair * 2 * Share<C>::PARTS + part * lines) * LINE_BYTES;
          if (load_lines(block, at, lines, chunk.tag, share.words[part]) < chunk.tag)
            wait_for_lines(block, chunk.reader, links.source[s], at, lines, chunk.tag,
                           share.words[part]);
        }
        if (is_last) share.gather();
      }
      // What is computed from lines that have not come must reach nobody.
      if (!chunk.reader.ok) return;
      Share<T> made;
      compute<LINE_LANES<W>>(block, begin, end, chunk.mode, f, arrived, made);
      if (is_last) made.scatter();
      ROLLED
      for (int t = 0; t < links.targets; ++t) {
        for (int part = 0; part < Share<T>::PARTS; ++part) {
          u8* const at = chunk.out[t] + (pair * 2 * Share<T>::PARTS + part * lines) * LINE_BYTES;
          store_lines(block, at, lines, chunk.tag, made.words[part]);
        }
      }
    });
  }

  /// Calls f for the lane's elements of [begin, end): N at a time where they are there and aligned,
  /// else one by one.
  template <int N, class C, class T, int R, class F>
  DEVICE void compute(const Block& block, index_t begin, index_t end, u64 mode, F f,
                      ArrivedLines<C, R>& arrived, Share<T>& made) {
    ROLLED
    for (arrived.at = 0; arrived.at < 2 * SHARE;) {
      const int at = arrived.at;
      const index_t j =
          begin + SHARE * team_lane(block) + at + (at < SHARE ? 0 : LINE_WORDS - SHARE);
      if (j >= end) return;
      if (j + N <= end && loads_vectors(mode)) {
        made.template set<N>(at, f(width<N, false>{}, j, arrived));
        arrived.at += N;
      } else {
        made.template set<1>(at, f(width<1, false>{}, j, arrived));
        arrived.at += 1;
      }
    }
  }
};
