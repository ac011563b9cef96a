// Keeps a cache directory within its bounds.
#pragma once

#include <mutex>
#include <thread>

#include "jit/cache/stats.h"
#include "jit/config/own_process.h"

namespace coconet::jit {

/// What a directory may hold; 0: no limit.
struct Limits {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  [[nodiscard]] bool exceeded_by(const Totals& totals) const {
    return (bytes != 0 && totals.bytes > bytes) || (files != 0 && totals.files > files);
  }
};

struct Eviction {
  Totals left;
  Totals removed;
  std::uint64_t temporaries = 0;  ///< removed files that a killed writer left
};

/// An entry that was never asked for counts as used a day before it was written: what is asked for
/// again outlives what was compiled once, though times move at most once a day.
inline constexpr std::chrono::hours day{24};

/// Removes the least recently used entries until a fifth of each exceeded limit is free, and
/// temporary files older than an hour. Throws std::system_error.
[[nodiscard]] Eviction evict(const CacheDirectory& directory, const Limits& limits, FileTime now);

/// Evicts as of now under the directory's lock and updates the stats; nothing when another process
/// holds the lock. Without locks several processes may evict at once, which does no harm.
[[nodiscard]] std::optional<Eviction> evict_alone(const CacheDirectory& directory,
                                                  const Limits& limits);

/// Evicts in the background: in a thread, and in one process at a time.
class Evictor {
 public:
  /// The thread calls `complain` with what the file system refuses.
  Evictor(Limits limits, std::function<void(const std::string& problem)> complain)
      : limits_(limits), complain_(std::move(complain)) {}
  ~Evictor() { finish(); }
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  /// Brings `directory` within its limits, by this process or one at it already; does not wait.
  void start(std::shared_ptr<const CacheDirectory> directory);
  /// Waits for an eviction that this process has under way.
  void finish();

 private:
  void evict_while_wanted(const CacheDirectory& directory);
  void evict_if_elected(const CacheDirectory& directory);

  Limits limits_;
  std::function<void(const std::string& problem)> complain_;
  std::mutex mutex_;
  std::thread thread_;
  OwnProcess process_;  ///< which has the thread, if there is one
  bool wanted_ = false;
  bool evicting_ = false;
};

}  // namespace coconet::jit
