// The layers of the cache on disk: a directory that is written, others that are only read, and last
// whoever makes the binary, one process at a time for each key.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "coconet/config.h"
#include "jit/cache/disk_cache.h"

namespace coconet::jit {

struct CacheSettings {
  std::filesystem::path directory;  ///< empty: none
  CacheMode mode = CacheMode::read_write;
  std::vector<std::filesystem::path> read_only;  ///< looked into after `directory`, in order
  Limits limits;
  int jobs = 1;  ///< compilers at once
};

/// What happened in a cache.
struct CacheEvents {
  std::uint64_t corrupt = 0;       ///< entries whose content was wrong
  std::uint64_t publish_lost = 0;  ///< binaries that somebody else stored first
};

/// Compilers that may run at once, in this process and in all of a machine that share a directory.
class CompileSlots {
 public:
  /// A compiler may run as long as it lives.
  class Slot {
   public:
    Slot(CompileSlots& slots, std::optional<Lock> lock) : slots_(slots), lock_(std::move(lock)) {}
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    CompileSlots& slots_;
    std::optional<Lock> lock_;
  };

  explicit CompileSlots(int process) : in_process_(process), on_machine_(process) {}
  void set(int in_process, int on_machine);
  [[nodiscard]] int in_process() const;
  /// Waits until `deadline`, and then goes on without a slot: who waits for ever has no kernel. The
  /// slots of the machine are kept in `disk`, if it is written.
  [[nodiscard]] Slot take(DiskCache& disk, Deadline deadline);

 private:
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  int in_process_;
  int on_machine_;
  int taken_ = 0;
};

class KernelCache {
 public:
  explicit KernelCache(const CacheSettings& settings);

  /// From the first directory that has it.
  [[nodiscard]] std::optional<CachedBinary> find(const CacheKey& key) {
    std::optional<CachedBinary> rejected;
    return find_useful(key, {}, rejected);
  }
  [[nodiscard]] bool contains(const CacheKey& key);

  /// How to make binaries. Keys are told by their indices.
  struct Recipe {
    /// One binary for all keys that are `missing`.
    std::function<CachedBinary(std::span<const std::size_t> missing)> make;
    /// Why the stored binary of a key is of no use; empty: it is. May be left out.
    std::function<std::string(std::size_t key, const CachedBinary&)> problem;
  };
  /// The binaries of `keys`, found or else made and stored. One of the processes that share the
  /// directory makes a binary; the others wait up to `patience` and then make their own. `slots`
  /// limits the compilers, but for those that waited so long. Throws what `recipe.make` throws.
  [[nodiscard]] std::vector<CachedBinary> obtain(std::span<const CacheKey* const> keys,
                                                 const Recipe& recipe,
                                                 std::chrono::milliseconds patience);

  /// Stores what came from elsewhere, unless there is one, which counts as a loss if it `is_new`.
  void publish(const CacheKey& key, const CachedBinary& binary, bool is_new = true) {
    if (!written_.publish(key, binary) && is_new) ++publish_lost_;
  }

  /// What `ask` answers, kept under `question`. One process asks, the others wait, 10 s at most.
  [[nodiscard]] std::string remember(const CacheKey& question,
                                     const std::function<std::string()>& ask);

  [[nodiscard]] CompileSlots& slots() { return slots_; }
  /// Names the directory that is written, the same on all machines; empty where there is none.
  [[nodiscard]] std::string id() { return written_.id(); }
  [[nodiscard]] CacheEvents events() const;
  /// Waits for what this process does in the background.
  void finish() { written_.finish(); }

 private:
  /// Why a stored binary is of no use; empty: it is.
  using Problem = std::function<std::string(const CachedBinary&)>;
  /// What an attempt to find a binary leaves.
  struct Attempt {
    std::optional<Lock> lock;              ///< to make it
    std::optional<CachedBinary> rejected;  ///< that is stored, and of no use here
  };
  /// The first stored binary of `key` without a problem; one with a problem becomes `rejected`.
  [[nodiscard]] std::optional<CachedBinary> find_useful(const CacheKey& key, const Problem& problem,
                                                        std::optional<CachedBinary>& rejected);
  /// `find_useful`, after waiting for a process that is compiling `key`; when there is no binary,
  /// `attempt` holds the lock for compiling it, where that could be taken.
  [[nodiscard]] std::optional<CachedBinary> find_or_lock(const CacheKey& key,
                                                         const Problem& problem, Deadline deadline,
                                                         Attempt& attempt);

  std::deque<DiskCache> directories_;  ///< the first is the one that is written
  DiskCache& written_;
  CompileSlots slots_;
  /// Sound entries whose content was of no use, and is another now.
  std::atomic<std::uint64_t> wrong_ = 0;
  std::atomic<std::uint64_t> publish_lost_ = 0;
};

/// What the cache directory may hold.
[[nodiscard]] Limits limits_of(const Config& config);
/// This process's cache on disk for `config`: one for each directory that is written, opened at the
/// first call. Lives as long as the process.
[[nodiscard]] KernelCache& cache_of(const Config& config);
/// The one that was opened first; where there is none yet, that of `config()`.
[[nodiscard]] KernelCache& first_cache();
/// What happened in all of them.
[[nodiscard]] CacheEvents cache_events();

}  // namespace coconet::jit
