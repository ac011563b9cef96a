// The layers of the cache on disk: a directory that is written, others that are only read, and last whoever makes the
// binary, one process at a time for each key.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jit/cache/compile_slots.h"
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
  std::uint64_t publish_lost = 0;  ///< binaries that were made, and stored by somebody else first
};

class KernelCache {
 public:
  explicit KernelCache(const CacheSettings& settings);

  /// From a directory, the first that has it.
  [[nodiscard]] std::optional<CachedBinary> find(const CacheKey& key);
  [[nodiscard]] bool contains(const CacheKey& key);

  /// How to come by a binary, and whether one that was stored is of any use: an empty text, or why it is not.
  struct Recipe {
    std::function<CachedBinary()> make;
    std::function<std::string(const CachedBinary&)> problem;
  };
  struct Obtained {
    CachedBinary binary;
    bool was_made = false;
  };
  /// The binary of `key`, found or else made and stored. Of all processes that share the directory one makes it and
  /// the others wait for that, `patience` at the longest; then they make their own. No more compilers than `slots`
  /// allows run at once, but for who has waited that long. Throws what `recipe.make` throws.
  [[nodiscard]] Obtained obtain(const CacheKey& key, const Recipe& recipe,
                                std::chrono::milliseconds patience);

  /// Stores what came from elsewhere, unless there is one, which counts as a loss if it `is_new`.
  void publish(const CacheKey& key, const CachedBinary& binary, bool is_new = true);

  /// What `ask` answers, kept under `question`: for what is dear to find out and changes with the question only. One
  /// process asks, as for `obtain`, and the others wait for 10 s at the longest.
  [[nodiscard]] std::string remember(const CacheKey& question,
                                     const std::function<std::string()>& ask);

  [[nodiscard]] CompileSlots& slots() { return slots_; }
  /// Names the directory that is written, the same on all machines that share it; empty where there is none.
  [[nodiscard]] std::string id() { return written_.id(); }
  [[nodiscard]] CacheEvents events() const;

 private:
  /// The binary of `key` that a directory has and that is of use.
  /// What is of none is put into `rejected`, and not asked about again.
  [[nodiscard]] std::optional<CachedBinary> find_useful(const CacheKey& key, const Recipe& recipe,
                                                        std::optional<CachedBinary>& rejected);
  /// What an attempt to find a binary leaves.
  struct Attempt {
    std::optional<Lock> lock;              ///< to make it
    std::optional<CachedBinary> rejected;  ///< that is stored, and of no use here
  };
  /// The same, after a wait for whoever makes it; else, if it is to be had, the lock to make it.
  [[nodiscard]] std::optional<CachedBinary> find_or_lock(const CacheKey& key, const Recipe& recipe,
                                                         Deadline deadline, Attempt& attempt);

  DiskCache written_;
  std::deque<DiskCache> read_only_;  ///< which cannot be moved
  CompileSlots slots_;
  std::atomic<std::uint64_t> wrong_ =
      0;  ///< sound entries whose content was of no use, and is another now
  std::atomic<std::uint64_t> publish_lost_ = 0;
};

}  // namespace coconet::jit
