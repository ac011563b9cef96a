// The processes that one launcher has started on this node, as its environment numbers them: who
// they are before MPI can say it.
#pragma once

#include <chrono>
#include <memory>

#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

/// How to look at the ranks that this process's launcher has started beside it, to say who keeps
/// the others: of Open MPI, MPICH or Slurm. Empty where the environment has no such numbers. The
/// functions may be called from several threads.
[[nodiscard]] FarRanks launched_ranks(std::chrono::milliseconds timeout);

/// The ranks of this process's job, looked at so; of one rank where nothing is known of others.
[[nodiscard]] std::shared_ptr<Membership> watch_launched(std::chrono::milliseconds timeout);

}  // namespace coconet::jit
