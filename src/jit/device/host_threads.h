// Device prelude, host half where a block is as many threads of the machine as it has on a GPU: the way that finds
// races. All blocks of a launch run at once, in warps of 32 threads, and every name of cuda.h does what it does there.
// ThreadSanitizer, to which barriers are atomics as flags are, then sees a race wherever a GPU has one.

constexpr int VECTOR_BYTES = 16;
constexpr int LINE_LANES = 1;
constexpr int WARP = 32;
constexpr int MOST_THREADS = 1024;

/// What the threads of one block share. The launcher makes one for each block, zeroed, as large as the kernel says.
struct BlockState {
  struct Meeting {
    u32 arrived;     // threads that wait
    u32 generation;  // meetings that all threads have left behind
  };
  Meeting block, warps[MOST_THREADS / WARP];
  u32 refused[2];  // the last vote that a thread refused, counted as meetings are: odd and even ones
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

/// Sleeps while `word` is `seen`: threads outnumber cores by far, and with ThreadSanitizer, yielding to each other costs
/// twice the processor time.
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

/// Waits for all `threads`, the last of which lets the others go. The fences order what the threads write before and
/// read after, for the machine; only the orders of atomics do so for ThreadSanitizer, which knows no fences.
template <int COME, int LEAVE, int LET_GO>
DEVICE void meet(BlockState::Meeting& meeting, int threads) {
  const u32 generation = __atomic_load_n(&meeting.generation, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (__atomic_add_fetch(&meeting.arrived, 1, COME) == u32(threads)) {
    __atomic_store_n(&meeting.arrived, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&meeting.generation, generation + 1, LET_GO);
    wake_all(&meeting.generation);
  } else {
    while (__atomic_load_n(&meeting.generation, LEAVE) == generation) wait_while(&meeting.generation, generation);
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// What any thread of the block wrote before is visible to all of them after.
DEVICE void block_barrier(const Block& block) {
  meet<__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE>(block.state->block, block.threads);
}

/// A barrier that tells all threads whether each of them was `ok`. Who is slow to read the answer cannot miss it: the
/// next vote has the other word, and none after that begins without him.
DEVICE bool all_in_block(const Block& block, bool ok) {
  const u32 vote = __atomic_load_n(&block.state->block.generation, __ATOMIC_RELAXED) + 1;
  u32* const refused = &block.state->refused[vote % 2];
  if (!ok) __atomic_store_n(refused, vote, __ATOMIC_RELAXED);
  block_barrier(block);
  return __atomic_load_n(refused, __ATOMIC_RELAXED) != vote;
}

/// `value` of the thread `step` behind this one in its warp; this one's where the warp ends. It orders nothing.
template <class T>
DEVICE T shuffle_down(const Block& block, T value, int step) {
  const auto warp_barrier = [&] {
    meet<__ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_RELAXED>(block.state->warps[block.thread / WARP], WARP);
  };
  u64 word = 0;
  __builtin_memcpy(&word, &value, sizeof(value));
  store_relaxed(&block.state->exchanged[block.thread], word);
  warp_barrier();
  const int from = block.thread % WARP + step < WARP ? block.thread + step : block.thread;
  word = load_relaxed(&block.state->exchanged[from]);
  warp_barrier();
  __builtin_memcpy(&value, &word, sizeof(value));
  return value;
}

/// An array that the threads of a block share, until they use another one.
#define BLOCK_SHARED(block, T, name, count)                               \
  static_assert(sizeof(T) * (count) <= sizeof(BlockState::shared));       \
  T* const name = reinterpret_cast<T*>((block).state->shared)

/// The block as if it were the only one, to share out work among its own threads.
DEVICE Block alone(const Block& block) { return Block{0, 1, block.thread, block.threads, block.state}; }

/// Defines the entry point that the launcher calls for every thread, all at once, and the size of a block's state.
#define KERNEL_ENTRY(name)                                                                                  \
  extern "C" __attribute__((visibility("default"))) const u64 name##_state_bytes = sizeof(BlockState);      \
  extern "C" __attribute__((visibility("default"))) void name(const Args* args, index_t block_index,        \
                                                              index_t block_count, int thread, int threads, \
                                                              BlockState* state) {                          \
    const Args local = *args; /* no store of the kernel can change it */                                    \
    name##_block(local, Block{block_index, block_count, thread, threads, state});                           \
  }

/// Lets others run between two looks at a flag.
DEVICE void relax(u64, u64) { sched_yield(); }
