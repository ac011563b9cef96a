// Device prelude, tensors over lists of buffers: a loop goes bucket by bucket, and what it does inside one is what it
// does with tensors that lie in one piece.

/// Elements [begin, begin + length) of what a loop runs over, which lie in one buffer of every scattered tensor.
struct Bucket {
  index_t begin;
  u32 length, buffer;
};

/// All buckets of what a loop runs over, in order.
struct Buckets {
  const Bucket* rows;
  index_t count;
};

/// Where the elements of a bucket are on R ranks, each pointer to element 0 of the whole as if the buffer went on.
template <class T, int R>
struct InBucket {
  T* rank[R];
};
template <class T, int R>
DEVICE InBucket<T, R> in_bucket(T* const* const (&ranks)[R], const Bucket& bucket) {
  InBucket<T, R> pointers;
  UNROLL
  for (int rank = 0; rank < R; ++rank) pointers.rank[rank] = ranks[rank][bucket.buffer];
  return pointers;
}

/// `mode` without the facts `needed` by vectors of N elements from `at` on, where these are not aligned.
template <int N, class T>
DEVICE u64 fit(u64 mode, u64 needed, const T* at) {
  constexpr u64 bytes = N * sizeof(T) < VECTOR_BYTES ? N * sizeof(T) : VECTOR_BYTES;
  return u64(at) % bytes == 0 ? mode : mode & ~needed;
}

/// Calls f(bucket) for the blocks' shares of all buckets.
template <class F>
DEVICE void for_each_bucket(const Block& block, const Buckets& buckets, F f) {
  for (index_t k = block.index; k < buckets.count; k += block.count) f(buckets.rows[k]);
}
