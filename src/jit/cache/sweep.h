// Keeps a cache directory within its bounds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "jit/cache/directory.h"
#include "jit/cache/ledger.h"

namespace coconet::jit {

/// What a directory may hold; 0: as much as there is.
struct Limits {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  [[nodiscard]] bool exceeded_by(const Totals& totals) const {
    return (bytes != 0 && totals.bytes > bytes) || (files != 0 && totals.files > files);
  }
};

/// What a sweep left and did.
struct Sweep {
  Totals left;
  Totals removed;
  std::uint64_t temporaries = 0;  ///< removed files that a killed writer left
};

/// An entry that was never asked for counts as used a day before it was written. So the first hit makes it a day
/// younger, later hits move it at most once a day, and what is asked for again outlives any number of kernels that
/// were compiled once.
inline constexpr std::chrono::hours day{24};

/// Removes what was used the longest ago until a fifth of each exceeded limit is free, and temporary files older than
/// an hour. Throws std::system_error when the directory cannot be listed.
[[nodiscard]] Sweep sweep(const CacheDirectory& directory, const Limits& limits, FileTime now);

/// The same now, and tells the ledger; nothing when another process is at it. Where there are no locks, sweepers may
/// meet, and do no harm.
[[nodiscard]] std::optional<Sweep> sweep_alone(const CacheDirectory& directory,
                                               const Limits& limits);

}  // namespace coconet::jit
