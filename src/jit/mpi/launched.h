// The processes that one launcher has started on this node, as its environment numbers them: who
// they are before MPI can say it.
#pragma once

#include <chrono>
#include <memory>

#include "jit/comm/barrier/membership.h"

namespace coconet::jit {

/// The ranks of this process's job, of which those are looked at that its launcher has started
/// beside it, to say who keeps the others: of Open MPI, MPICH or Slurm. Of one rank where the
/// environment has no such numbers.
[[nodiscard]] std::shared_ptr<Membership> watch_launched(std::chrono::milliseconds timeout);

}  // namespace coconet::jit
