// Device prelude, tensors over lists of buffers: a loop goes bucket by bucket, and what it does inside one is what it
// does with tensors that lie in one piece.

/// Elements [begin, begin + length) of what a loop runs over, which lie in one buffer of every scattered tensor: the one
/// that begins with element `start` of the whole.
struct Bucket {
  index_t begin, start;
  u32 length, buffer;
};

/// All buckets of what a loop runs over, in order.
struct Buckets {
  const Bucket* rows;
  index_t count;
};

/// An address in a list. Apart, because the memory of an emulated GPU is elsewhere.
template <class T>
DEVICE T* address_in(T* const* list, u32 buffer) {
  return list[buffer];
}

/// Where element 0 of the whole would be, if the buffer went on.
template <class T>
DEVICE T* in_bucket(T* const* list, const Bucket& bucket) {
  return address_in(list, bucket.buffer) - bucket.start;
}

/// The same on R ranks.
template <class T, int R>
struct InBucket {
  T* rank[R];
};
template <class T, int R>
DEVICE InBucket<T, R> in_bucket_of_ranks(T* const* const (&lists)[R], const Bucket& bucket) {
  InBucket<T, R> pointers;
  UNROLL
  for (int rank = 0; rank < R; ++rank) pointers.rank[rank] = in_bucket(lists[rank], bucket);
  return pointers;
}

/// `mode` without the facts `needed` by vectors of N elements from `at` on, where these are not aligned.
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
