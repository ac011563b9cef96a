// Prelude, host half where a block is as many threads of the machine as it has on a GPU: the way
// that finds races. All blocks of a launch run at once, in warps of 32 threads, and every name of
// cuda.h does what it does there. ThreadSanitizer, to which barriers are atomics as flags are, then
// sees a race wherever a GPU has one.

constexpr int TEAM = 8;
constexpr int WARP = 32;
constexpr int MOST_THREADS = 1024;

/// What the threads of one block share. The launcher makes one for each block, zeroed, as large as
/// the kernel says.
struct BlockState {
  struct Barrier {
    u32 arrived;     // threads that wait
    u32 generation;  // times that all threads have come
  };
  Barrier block, warps[MOST_THREADS / WARP], teams[MOST_THREADS / TEAM];
  // the last vote that a thread refused, counted as barriers are: odd and even ones
  u32 refused[2];
  u64 exchanged[MOST_THREADS];
  alignas(64) u64 shared[MOST_THREADS];
};

/// Where a kernel runs: block `index` of `count`, thread `thread` of `threads`.
struct Block {
  index_t index, count;
  int thread, threads;
  BlockState* state;
};

extern "C" long syscall(long number, ...);

/// Sleeps while `word` is `seen`: threads outnumber cores by far, and with ThreadSanitizer,
/// yielding to each other costs twice the processor time.
DEVICE void wait_while(const u32* word, u32 seen) {
#if defined(__x86_64__)
  syscall(202, word, 128, seen, nullptr);  // futex, FUTEX_WAIT_PRIVATE
#elif defined(__aarch64__)
  syscall(98, word, 128, seen, nullptr);
#else
  sched_yield();
#endif
}
DEVICE void wake_all(const u32* word) {
#if defined(__x86_64__)
  syscall(202, word, 129, MOST_THREADS);  // FUTEX_WAKE_PRIVATE
#elif defined(__aarch64__)
  syscall(98, word, 129, MOST_THREADS);
#endif
}

/// Waits for all `threads`, the last of which lets the others go. The fences order what the threads
/// write before and read after, for the machine; only the orders of atomics do so for
/// ThreadSanitizer, which knows no fences.
template <int COME, int LEAVE, int LET_GO>
DEVICE void wait_at(BlockState::Barrier& barrier, int threads) {
  const u32 generation = __atomic_load_n(&barrier.generation, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_add_fetch(&barrier.arrived, 1, COME) == u32(threads)) {
    __atomic_store_n(&barrier.arrived, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&barrier.generation, generation + 1, LET_GO);
    wake_all(&barrier.generation);
  } else {
    while (__atomic_load_n(&barrier.generation, LEAVE) == generation)
      wait_while(&barrier.generation, generation);
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// What any thread of the block wrote before is visible to all of them after.
DEVICE void block_barrier(const Block& block) {
  wait_at<__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE>(block.state->block, block.threads);
}

/// A barrier that tells all threads whether each of them was `ok`. Who is slow to read the answer
/// cannot miss it: the next vote has the other word, and none after that begins without him.
DEVICE bool all_in_block(const Block& block, bool ok) {
  const u32 vote = __atomic_load_n(&block.state->block.generation, __ATOMIC_RELAXED) + 1;
  u32* const refused = &block.state->refused[vote % 2];
  if (!ok) __atomic_store_n(refused, vote, __ATOMIC_RELAXED);
  block_barrier(block);
  return __atomic_load_n(refused, __ATOMIC_RELAXED) != vote;
}

/// `value` of thread `from`, which is one of the `threads` of the barrier. It orders nothing.
template <class T>
DEVICE T shuffle(const Block& block, BlockState::Barrier& barrier, int threads, T value, int from) {
  u64 word = 0;
  __builtin_memcpy(&word, &value, sizeof(value));
  store_relaxed(&block.state->exchanged[block.thread], word);
  wait_at<__ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_RELAXED>(barrier, threads);
  word = load_relaxed(&block.state->exchanged[from]);
  wait_at<__ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_RELAXED>(barrier, threads);
  __builtin_memcpy(&value, &word, sizeof(value));
  return value;
}

/// `value` of the thread `step` behind this one in its warp; this one's where the warp ends. It
/// orders nothing.
template <class T>
DEVICE T shuffle_down(const Block& block, T value, int step) {
  const int from = block.thread % WARP + step < WARP ? block.thread + step : block.thread;
  return shuffle(block, block.state->warps[block.thread / WARP], WARP, value, from);
}

// Lines of 128 bytes, of which a team's lanes have 16 each and the last 8 are a flag. Here they are
// not stored at once: the lanes store data, then wait for each other, as they do on a GPU before
// its one store, then the last one raises the flag.

/// `value` of the team's last lane. It orders nothing.
DEVICE u64 of_last_lane(const Block& block, u64 value) {
  const int team = block.thread / TEAM;
  return shuffle(block, block.state->teams[team], TEAM, value, team * TEAM + TEAM - 1);
}

/// Where this lane's words of line `line` behind `lines` begin, and how many of them are data. They
/// are accessed one by one: ThreadSanitizer does not look into copies of memory.
template <class T>
DEVICE T* lane_words(const Block& block, T* lines, int line) {
  return lines + 32 * line + block.thread % TEAM * 4;
}
DEVICE int data_words(const Block& block) { return block.thread % TEAM == TEAM - 1 ? 2 : 4; }

/// The lower flag of one or two lines at `lines`, for all lanes of the team, and the lane's words
/// of both where the flags are at least `tag`.
DEVICE u64 load_lines(const Block& block, const u8* lines, int count, u64 tag, u32* words) {
  const auto look = [&] {
    const u64 flag = observe(reinterpret_cast<const u64*>(lines + 120));
    const u64 other = observe(reinterpret_cast<const u64*>(lines + 128 * count - 8));
    return flag < other ? flag : other;
  };
  const u64 found = of_last_lane(block, look());
  if (found < tag) return found;
  look();  // every lane acquires for itself what the last one saw
  for (int line = 0; line < count; ++line) {
    const u32* const mine = lane_words(block, reinterpret_cast<const u32*>(lines), line);
    for (int w = 0; w < data_words(block); ++w) words[4 * line + w] = mine[w];
  }
  return found;
}

/// Stores the team's words to one or two lines, with `tag` as their flags.
DEVICE void store_lines(const Block& block, u8* lines, int count, u64 tag, const u32* words) {
  for (int line = 0; line < count; ++line) {
    u32* const mine = lane_words(block, reinterpret_cast<u32*>(lines), line);
    for (int w = 0; w < data_words(block); ++w) mine[w] = words[4 * line + w];
  }
  wait_at<__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE>(
      block.state->teams[block.thread / TEAM], TEAM);
  for (int line = 0; line < count && block.thread % TEAM == TEAM - 1; ++line)
    signal(reinterpret_cast<u64*>(lines + 128 * line + 120), tag);
}

/// An array that the threads of a block share, until they use another one.
#define BLOCK_SHARED(block, T, name, count)                               \
  static_assert(sizeof(T) * (count) <= sizeof(BlockState::shared));       \
  T* const name = reinterpret_cast<T*>((block).state->shared)

/// The block as if it were the only one, to share out work among its own threads.
DEVICE Block alone(const Block& block) {
  return Block{0, 1, block.thread, block.threads, block.state};
}

/// Defines the entry point that the launcher calls for every thread, all at once, and the size of a
/// block's state.
#define KERNEL_ENTRY(name)                                                                 \
  extern "C" __attribute__((visibility("default"))) const u64 name##_state_bytes =         \
      sizeof(BlockState);                                                                  \
  extern "C" __attribute__((visibility("default"))) void name(                             \
      const Args* args, index_t block_index, index_t block_count, int thread, int threads, \
      BlockState* state) {                                                                 \
    const Args local = *args; /* no store of the kernel can change it */                   \
    name##_block(local, Block{block_index, block_count, thread, threads, state});          \
  }

/// Lets others run between two looks at a flag.
DEVICE void relax(u64, u64) { sched_yield(); }
