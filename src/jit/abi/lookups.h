// ABI, looking up along a dimension of a tensor.

/// The dimension has `extent` indices, of which this rank has `count` from `first` on, each
/// `stride` elements behind the one before.
struct Lookup {
  index_t extent, first, count, stride;
};

static_assert(sizeof(Lookup) == 32 && OFFSET_OF(stride, Lookup) == 24);
