// The one file of a cache directory that is no entry: its identity and how much lies in it.
#pragma once

#include "jit/cache/directory.h"

namespace coconet::jit {

inline constexpr const char* stats_file = "ledger";

/// How much lies in a directory.
struct Totals {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  void add(std::uint64_t file_bytes) {
    bytes += file_bytes;
    ++files;
  }
};

/// All but `id` are hints, which a killed process leaves out of date and evictions correct.
struct CacheStats {
  /// 32 hexadecimal digits, drawn when the directory was first used; the same through every mount.
  std::string id;
  Totals totals;
  std::int64_t evicted = 0;  ///< when an eviction ended last, seconds since 1970; 0: never
};

/// Without a lock; nothing when there is none or it is damaged.
[[nodiscard]] std::optional<CacheStats> read_stats(const CacheDirectory& directory);

/// Reads the stats, changes and writes them under a lock; makes them where there are none, or
/// damaged ones. Throws std::system_error, also when the lock is not free within a second.
CacheStats update_stats(const CacheDirectory& directory,
                        const std::function<void(CacheStats&)>& change = {});

}  // namespace coconet::jit
