// Waiting for work that ends only with other processes' work.
#pragma once

#include <functional>
#include <span>

#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Waits until `queue` is idle. Throws CommError, and aborts `collectives`, when a rank or one of
/// them has failed or COCONET_TIMEOUT_S is over.
void finish_watching(Comm& comm, const Queue& queue, std::span<Collectives* const> collectives);

}  // namespace coconet::jit
