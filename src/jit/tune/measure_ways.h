// Where the ways of the host's collectives cross over on this machine.
#pragma once

#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Collective: times both sides of each choice in turn, and leaves the best in `comm`, which it
/// returns. All ranks must share memory.
CollectiveWays measure_ways(Comm& comm, const Platform& platform);

}  // namespace coconet::jit
