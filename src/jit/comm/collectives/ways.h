// How the collectives of ranks that share memory go: where their data crosses from one core's
// caches to another's.
#pragma once

#include <cstddef>
#include <limits>

#include "coconet/export.h"

namespace coconet::jit {

/// By bytes, the same on all ranks of a group.
struct CollectiveWays {
  /// Up to here the others copy what a rank shows them, even where they reach it: that takes less
  /// than the second barrier of tensors that stay where they are.
  std::size_t copied_bytes = std::size_t{8} << 10;
  /// From this size on, what others read next goes past this rank's caches: its lines would have to
  /// be fetched from there.
  std::size_t streamed_bytes = std::size_t{16} << 10;

  static constexpr std::size_t always = std::numeric_limits<std::size_t>::max();
  bool operator==(const CollectiveWays&) const = default;
};

/// Microseconds in which each rank of a group gets what its neighbour has just written, and the
/// other way round, on the slowest rank.
struct HandOver {
  double cached = 0;       ///< written as usual: the lines are in the other core's caches
  double past_caches = 0;  ///< written to memory
  double local = 0;        ///< a copy of as much by one rank alone
};

/// Where the cores are far apart, such as on two sockets, a line that is fetched from the other
/// one's caches costs more than a copy past them: all goes through copies. Where they are near,
/// writing past the caches costs little, and less than to be wrong about it when a process moves.
[[nodiscard]] COCONET_API CollectiveWays ways_for(const HandOver& took);

}  // namespace coconet::jit
