// ABI, scattered tensors: each lies over many buffers, whose addresses are in an array. A loop goes
// bucket by bucket.

/// Elements [begin, begin + length) of what a loop runs over, which lie in one buffer of every
/// scattered tensor: the one that begins with element `start` of the whole.
struct Bucket {
  index_t begin, start;
  u32 length, buffer;
};

/// All buckets of what a loop runs over, in order.
struct Buckets {
  const Bucket* rows;
  index_t count;
};

static_assert(sizeof(Bucket) == 24 && OFFSET_OF(buffer, Bucket) == 20);
static_assert(sizeof(Buckets) == 16 && OFFSET_OF(count, Buckets) == 8);
