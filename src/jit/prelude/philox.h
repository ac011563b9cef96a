// Prelude, random numbers: Philox4x32-10, as the words of the elements of a tensor. How a lane
// draws those of a vector is in random_words.h.

/// The four words of the block with counter {block, offset} and key `seed`.
struct PhiloxWords {
  u32 word[4];
};
DEVICE PhiloxWords philox_block(u64 block, u64 offset, u64 seed) {
  u32 c0 = u32(block), c1 = u32(block >> 32), c2 = u32(offset), c3 = u32(offset >> 32);
  u32 k0 = u32(seed), k1 = u32(seed >> 32);
  UNROLL
  for (int round = 0; round < 10; ++round) {
    const u64 a = u64(0xD2511F53u) * c0;
    const u64 b = u64(0xCD9E8D57u) * c2;
    c0 = u32(b >> 32) ^ c1 ^ k0;
    c2 = u32(a >> 32) ^ c3 ^ k1;
    c1 = u32(b);
    c3 = u32(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return PhiloxWords{{c0, c1, c2, c3}};
}

/// Word `index` % 4 of block `index` / 4, chosen without branches.
DEVICE u32 philox(u64 index, u64 offset, u64 seed) {
  const PhiloxWords of = philox_block(index >> 2, offset, seed);
  const u32 low = index & 1 ? of.word[1] : of.word[0];
  const u32 high = index & 1 ? of.word[3] : of.word[2];
  return index & 2 ? high : low;
}

/// `x` as one of the two bf16 around it: away from zero where its lower 16 bits and those of the
/// element's word carry.
DEVICE f32 stochastic_cast_(f32 x, u32 word) {
  const u32 bits = bits_of(x);
  return float_of((x == x ? bits + (word & 0xffffu) : bits | 0x400000u) & 0xffff0000u);
}

/// `x` scaled, or 0 where the element's word is at most `last_dropped`.
template <class T>
DEVICE T dropout_(T x, u32 word, u32 last_dropped, T scale) {
  return word > last_dropped ? x * scale : T(0);
}
