// Prelude, the random words of a vector where a block is one lane: blocks are drawn many at a time,
// each in a 64-bit lane of the machine's vectors, and kept for the vectors that follow.

// The widest vectors that have a product of 32-bit halves.
#if defined(__AVX512F__)
constexpr int BLOCK_LANES = 8;
#elif defined(__AVX2__)
constexpr int BLOCK_LANES = 4;
#else
constexpr int BLOCK_LANES = 2;
#endif

/// A word of as many blocks, in the lower halves; what the upper ones hold is ignored.
typedef u64 block_lanes __attribute__((vector_size(8 * BLOCK_LANES)));

/// The product of each lower half and `factor`. gcc has no other way to say that in one
/// instruction.
DEVICE block_lanes product(block_lanes x, u32 factor) {
#if defined(__x86_64__) && !defined(__clang__)
  typedef i32 halves __attribute__((vector_size(8 * BLOCK_LANES)));
  const halves a = (halves)x, b = (halves)(block_lanes{} + u64(factor));
#if defined(__AVX512F__)
  typedef i64 wholes __attribute__((vector_size(64)));
  return (block_lanes)__builtin_ia32_pmuludq512_mask(a, b, wholes{}, 0xff);
#elif defined(__AVX2__)
  return (block_lanes)__builtin_ia32_pmuludq256(a, b);
#else
  return (block_lanes)__builtin_ia32_pmuludq128(a, b);
#endif
#else
  return (x & 0xffffffffu) * u64(factor);
#endif
}

/// Words of elements, by their indices, of which the last ones drawn are at hand.
struct RandomWords {
  static constexpr int WINDOW = 128;  ///< words that are drawn together
  u64 offset, seed;
  u64 begin = ~u64(0) - WINDOW;  ///< the index that word[0] belongs to
  alignas(64) u32 word[WINDOW];

  /// The words of elements [index, index + N), by lane.
  template <int N>
  DEVICE_MEMBER const u32* of(u64 index) {
    static_assert(N <= WINDOW - 3);
    if (index - begin > u64(WINDOW - N)) draw(index & ~u64(3));
    return word + (index - begin);
  }

  /// Draws the words from `first` on, a multiple of 4. A function that is called, as every loop
  /// over whole vectors has another over single elements.
  __attribute__((noinline)) void draw(u64 first) {
    constexpr int BATCH = WINDOW / 4 / BLOCK_LANES;
    block_lanes c0[BATCH], c1[BATCH], c2[BATCH], c3[BATCH];
    UNROLL
    for (int v = 0; v < BATCH; ++v) {
      block_lanes lane;
      for (int l = 0; l < BLOCK_LANES; ++l) lane[l] = u64(v * BLOCK_LANES + l);
      c0[v] = lane + (first >> 2);
      c1[v] = c0[v] >> 32;
      c2[v] = block_lanes{} + offset;
      c3[v] = c2[v] >> 32;
    }
    u32 k0 = u32(seed), k1 = u32(seed >> 32);
    UNROLL
    for (int round = 0; round < 10; ++round) {
      UNROLL
      for (int v = 0; v < BATCH; ++v) {
        const block_lanes a = product(c0[v], 0xD2511F53u);
        const block_lanes b = product(c2[v], 0xCD9E8D57u);
        c0[v] = (b >> 32) ^ c1[v] ^ u64(k0);
        c2[v] = (a >> 32) ^ c3[v] ^ u64(k1);
        c1[v] = b;
        c3[v] = a;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    UNROLL
    for (int v = 0; v < BATCH; ++v) {
      const block_lanes low = (c0[v] & 0xffffffffu) | c1[v] << 32;
      const block_lanes high = (c2[v] & 0xffffffffu) | c3[v] << 32;
      u64 pairs[2 * BLOCK_LANES];
      for (int l = 0; l < BLOCK_LANES; ++l) {
        pairs[2 * l] = low[l];
        pairs[2 * l + 1] = high[l];
      }
      __builtin_memcpy(word + 4 * BLOCK_LANES * v, pairs, sizeof pairs);
    }
    begin = first;
  }
};
