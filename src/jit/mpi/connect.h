// Connects the ranks of a communicator: they find which of them share memory, and become a world of
// one node or of several.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "jit/comm/comm.h"
#include "jit/mpi/link.h"
#include "jit/mpi/nodes.h"

namespace coconet::jit {

/// A world's comm, and its link to other nodes; null in a world of one node.
struct Connected {
  std::shared_ptr<Comm> comm;
  std::shared_ptr<MpiLink> link;
  std::shared_ptr<OwnComms> comms;
};

/// Collective over `communicator`, which is not used from then on. Throws CommError.
[[nodiscard]] Connected connect(MPI_Comm communicator, const std::shared_ptr<const Config>& config);

/// The memberships of this process's worlds, and of those that could not be made: its end may have
/// to wait for their ranks.
[[nodiscard]] std::vector<std::shared_ptr<Membership>> living_memberships();

}  // namespace coconet::jit
