// Prelude, scattered tensors: a loop goes bucket by bucket, and what it does inside one is what it
// does with tensors that lie in one buffer.

/// The address of a buffer. Apart, because the memory of an emulated GPU is elsewhere.
template <class T>
DEVICE T* address_in(T* const* buffers, u32 buffer) {
  return buffers[buffer];
}

/// Where element 0 of the whole would be, if the buffer went on.
template <class T>
DEVICE T* in_bucket(T* const* buffers, const Bucket& bucket) {
  return address_in(buffers, bucket.buffer) - bucket.start;
}

/// Where element 0 of the whole would be on each of R ranks.
template <class T, int R>
struct InBucket {
  T* rank[R];
};
template <class T, int R>
DEVICE InBucket<T, R> in_bucket_of_ranks(T* const* const (&buffers)[R], const Bucket& bucket) {
  InBucket<T, R> pointers;
  UNROLL
  for (int rank = 0; rank < R; ++rank) pointers.rank[rank] = in_bucket(buffers[rank], bucket);
  return pointers;
}

/// `mode` without the facts `needed` by vectors of N elements from `at` on, where these are not
/// aligned.
template <int N, class T>
DEVICE u64 fit(u64 mode, u64 needed, const T* at) {
  constexpr u64 bytes = N * sizeof(T) < VECTOR_BYTES ? N * sizeof(T) : VECTOR_BYTES;
  return u64(at) % bytes == 0 ? mode : mode & ~needed;
}

/// Calls f(bucket) for the block's share of all buckets.
template <class F>
DEVICE void for_each_bucket(const Block& block, const Buckets& buckets, F f) {
  for (index_t k = block.index; k < buckets.count; k += block.count) f(buckets.rows[k]);
}
