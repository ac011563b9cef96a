// Collectives of MPI among some ranks of a world.
#pragma once

#include <mpi.h>

#include <memory>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/collectives/collectives.h"

namespace coconet::jit {

/// `comm` holds the ranks of `barrier` in its order. They meet before each blocking call: inside
/// MPI nobody could tell them that a rank is late, has failed or has left.
[[nodiscard]] std::shared_ptr<Collectives> make_mpi_collectives(MPI_Comm comm,
                                                                std::shared_ptr<Barrier> barrier);

}  // namespace coconet::jit
