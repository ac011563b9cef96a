// Who finds or compiles which kernel for all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/cache/digest.h"

namespace coconet::jit {

/// Where a rank has a binary; more is nearer.
enum class Reach : std::uint8_t { absent, on_disk, in_memory };

/// What a rank needs.
struct Need {
  Digest digest{};
  Reach reach = Reach::absent;
};

/// One of the binaries that some ranks need.
struct Task {
  Digest digest{};
  int leader = 0;               ///< the rank that finds or compiles it
  Reach reach = Reach::absent;  ///< where the leader has it
};

/// The tasks of ranks that need `needs[rank]`, in the order in which they are first needed. A
/// digest's leader needs it and has it the nearest; of these it is the one with the fewest tasks of
/// that kind, so that compilations spread over the ranks. All ranks compute the same.
[[nodiscard]] std::vector<Task> elect(const std::vector<std::vector<Need>>& needs);

}  // namespace coconet::jit
