// Prelude, random numbers: Philox4x32-10, as the words of the elements of a tensor.

/// Word index % 4 of the block with counter {index / 4, offset} and key `seed`. All words of the
/// block are computed for each of them, without branches, so that loops over lanes become vector
/// code wherever they begin.
DEVICE u32 philox(u64 index, u64 offset, u64 seed) {
  u32 c0 = u32(index >> 2), c1 = u32(index >> 34), c2 = u32(offset), c3 = u32(offset >> 32);
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
  const u32 low = index & 1 ? c1 : c0;
  const u32 high = index & 1 ? c3 : c2;
  return index & 2 ? high : low;
}

/// `x` scaled, or 0 where the element's word is at most `last_dropped`.
template <class T>
DEVICE T dropout_(T x, index_t index, u64 offset, u64 seed, u32 last_dropped, T scale) {
  return philox(u64(index), offset, seed) > last_dropped ? x * scale : T(0);
}
