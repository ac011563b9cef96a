// ABI, what every kernel is launched with: facts about the launch, and what its ranks need to wait
// for each other.

/// Facts about a launch that choose among loops over the same body.
enum : u64 {
  // every vector access is aligned; matters on GPUs only, where all accesses are single otherwise
  VECTORIZE = 1,
  // what goes to other ranks leaves the caches, and its vectors are aligned; on the host only
  STREAMING = 2
};

/// Bytes that a lane accesses at once at most, where blocks are threads and where a block is one
/// lane of the host.
constexpr int GPU_VECTOR_BYTES = 16;
constexpr int HOST_VECTOR_BYTES = 64;

/// Words from one flag to the next: each has a cache line.
constexpr int FLAG_STRIDE = 8;

/// Most blocks that a kernel with barriers may have: the flags are laid out for them.
constexpr int MAX_BLOCKS = 1024;

/// Why a kernel gave up: a rank did not come, refused the kernel or was given other scalars.
enum : u64 { RANK_MISSED = 1, RANK_REFUSED = 2, RANK_DISAGREES = 3 };

/// What was waited for: the number of a barrier in the kernel, or one of these.
enum : u64 { WAIT_FOR_ROOM = 100, WAIT_FOR_MESSAGE = 101, WAIT_FOR_TILE = 102 };

/// What the first wait that failed found, for the host to say.
struct Fault {
  u64 code;
  u64 step, phase, block, peer, expected, found;
};

/// What R ranks need to wait for each other. Each rank has a flag for every block and peer, at
/// `barrier_flag`, which holds a `barrier_value` of the epoch that the peer has reached. Behind
/// those of blocks are the flags of whole grids: the block that raises one may be another each
/// time.
struct SyncHead {
  u64* own_flags;
  Fault* fault;
  u64 epoch, rank, timeout, spin_limit, step;
  u64 given;        // the digest of this run, the same on all ranks or else nothing is done
  u64* waited;      // where blocks of the host add the nanoseconds that they wait, or null
  const u64* notices;  // of peer 0: not zero when a wait for it must be given up
  u64 notice_stride;   // words from one peer's notice to the next one's
};
template <int R>
struct Sync : SyncHead {
  u64* flags[R];
};

/// The word of a rank's flags where `peer`, of `ranks`, says how far its block `block` is.
DEVICE constexpr index_t barrier_flag(index_t block, index_t peer, int ranks) {
  return (block * ranks + peer) * FLAG_STRIDE;
}
constexpr index_t WHOLE_GRID = MAX_BLOCKS;
/// Words of all flags at one rank.
DEVICE constexpr index_t barrier_words(int ranks) {
  return barrier_flag(WHOLE_GRID + 1, 0, ranks);
}
/// What the flag holds from `epoch` on: behind it a digest of what the rank was given for the run,
/// and in the lowest bit whether it refuses to take part.
constexpr int GIVEN_BITS = 20;
DEVICE constexpr u64 barrier_value(u64 epoch, u64 given, bool refuses) {
  return (epoch << GIVEN_BITS | given) << 1 | (refuses ? 1 : 0);
}
DEVICE constexpr u64 epoch_of(u64 flag) { return flag >> (GIVEN_BITS + 1); }

/// Where ranks leave their totals for each other. At every rank: a count of the rank's blocks that
/// have come to a barrier; words [2][COUNT][R], a total of each rank, of which launches use the
/// halves in turn, so that a rank may begin the next launch while another still reads; and words
/// [COUNT][shares], those of shares of the rank's own elements: each block's, or on the host, where
/// a block is one lane, `shares` of them that blocks share out, so that the bits are those of any
/// number of cores.
template <int R, int COUNT>
struct Totals {
  u64 turn;
  index_t shares;
  u64* of[R];
};
DEVICE constexpr index_t total_word(u64 turn, int counts, int ranks, int index, index_t rank) {
  return FLAG_STRIDE + (index_t(turn & 1) * counts + index) * ranks + rank;
}
DEVICE constexpr index_t share_total_word(int counts, int ranks, int index, index_t shares,
                                          index_t share) {
  return FLAG_STRIDE + 2 * counts * ranks + index * shares + share;
}
/// Words of all of them at one rank.
DEVICE constexpr index_t total_words(int counts, int ranks, index_t shares) {
  return share_total_word(counts, ranks, counts, shares, 0);
}

/// The arrays of all ranks: one by one, and the address that stands for all of them, which nobody
/// follows where `switch_total` and `switch_copy` say that there is no such way.
template <class T, int R>
struct Multicast {
  T* all;
  T* rank[R];
};

static_assert(sizeof(Fault) == 56 && OFFSET_OF(found, Fault) == 48);
static_assert(sizeof(SyncHead) == 88 && OFFSET_OF(epoch, SyncHead) == 16 &&
              OFFSET_OF(notices, SyncHead) == 72);
static_assert(sizeof(Sync<3>) == sizeof(SyncHead) + 3 * sizeof(u64*));
static_assert(sizeof(Totals<3, 2>) == 5 * sizeof(u64) && OFFSET_OF(of, Totals<3, 2>) == 16);
static_assert(sizeof(Multicast<u8, 3>) == 4 * sizeof(u8*) &&
              OFFSET_OF(rank, Multicast<u8, 3>) == 8);
