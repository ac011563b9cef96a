// Where the ways of the host's collectives cross over on this machine.
#pragma once

#include <functional>
#include <optional>

#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Collective: times both sides of each choice in turn, and leaves the best in `comm`, which it
/// returns; nothing, and the usual ones in `comm`, where any rank's `interrupted`, if any, says so
/// between measurements. All ranks must share memory.
[[nodiscard]] std::optional<CollectiveWays> measure_ways(Comm& comm, const Platform& platform,
                                                         const std::function<bool()>& interrupted);

}  // namespace coconet::jit
