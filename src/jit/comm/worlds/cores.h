// How many ranks share a core, and how many cores a rank has.
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

/// The cores that each rank has for itself, at least one: the most threads of every rank at once
/// for which there is a core each. Two hardware threads of a core that a rank may run on count as
/// one. `by_rank` holds every rank's cores.
[[nodiscard]] COCONET_API int cores_of_each(const std::vector<Cores>& by_rank);

/// Over how many threads a rank spreads its kernels.
struct CoresOfRank {
  int count = 1;         ///< the same on all ranks
  bool crowded = false;  ///< there are fewer cores for the threads of this node's ranks
};
/// Collective: the least of what ranks want. 0 wants the cores that a rank has for itself.
[[nodiscard]] CoresOfRank agree_on_cores(Comm& comm, int wanted);

}  // namespace coconet::jit
