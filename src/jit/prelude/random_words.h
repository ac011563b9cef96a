// Prelude, the random words of a vector where a thread draws them.

/// Words of elements, by their indices.
struct RandomWords {
  u64 offset, seed;

  /// The words of elements [index, index + N), by lane. Each of their blocks is computed once: one
  /// for four elements, and one more where they begin inside a block.
  template <int N>
  DEVICE_MEMBER auto of(u64 index) const {
    vec<N, u32> words;
    if constexpr (N == 1) {
      words[0] = philox(index, offset, seed);
    } else {
      constexpr int BLOCKS = (N + 6) / 4;
      const int skipped = int(index & 3);
      u32 all[4 * BLOCKS] = {};
      UNROLL
      for (int b = 0; b < BLOCKS; ++b) {
        if (4 * b >= N + skipped) continue;
        const PhiloxWords block = philox_block((index >> 2) + u64(b), offset, seed);
        UNROLL
        for (int w = 0; w < 4; ++w) all[4 * b + w] = block.word[w];
      }
      lanes<N>([&](int l) {
        const u32 low = skipped & 1 ? all[l + 1] : all[l];
        const u32 high = skipped & 1 ? all[l + 3] : all[l + 2];
        words[l] = skipped & 2 ? high : low;
      });
    }
    return words;
  }
};
