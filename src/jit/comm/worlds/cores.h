// How many ranks share a core.
#pragma once

#include <bitset>
#include <vector>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// The cores that a thread may run on.
using Cores = std::bitset<1024>;

/// Those of the calling thread; all, where the system does not say.
[[nodiscard]] COCONET_API Cores available_cores();

/// Ranks over cores, rounded up, where they crowd most. `by_rank` holds every rank's cores: ranks
/// that are bound to one core each do not crowd, and ranks bound to the same core do, however many
/// cores the others have.
[[nodiscard]] COCONET_API int ranks_per_core(const std::vector<Cores>& by_rank);

/// Collective: whether each rank of `comm` has cores for `threads` of its own.
[[nodiscard]] bool have_cores(Comm& comm, int threads);

}  // namespace coconet::jit
