// Keeps a cache directory within its bounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "jit/cache/directory.h"
#include "jit/cache/stats.h"

namespace coconet::jit {

/// What a directory may hold; 0: no limit.
struct Limits {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  [[nodiscard]] bool exceeded_by(const Totals& totals) const {
    return (bytes != 0 && totals.bytes > bytes) || (files != 0 && totals.files > files);
  }
};

/// What an eviction left and did.
struct Eviction {
  Totals left;
  Totals removed;
  std::uint64_t temporaries = 0;  ///< removed files that a killed writer left
};

/// An entry that was never asked for counts as used a day before it was written. So its first hit makes it a day younger,
/// later hits move its time at most once a day, and what is asked for again outlives what was compiled once.
inline constexpr std::chrono::hours day{24};

/// Removes the least recently used entries until a fifth of each exceeded limit is free, and temporary files older than an
/// hour. Throws std::system_error when the directory cannot be listed.
[[nodiscard]] Eviction evict(const CacheDirectory& directory, const Limits& limits, FileTime now);

/// The same now, under a lock, and updates the stats; nothing when another process holds the lock. Where there are no
/// locks, several processes may evict at once, which does no harm.
[[nodiscard]] std::optional<Eviction> evict_alone(const CacheDirectory& directory,
                                                  const Limits& limits);

}  // namespace coconet::jit
