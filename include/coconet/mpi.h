// Worlds of the application's own MPI communicators. The only public header that includes MPI's;
// link coconet::mpi.
#pragma once

#include <mpi.h>

#include "coconet/world.h"

namespace coconet {

/// World::mpi of a communicator, see coconet/world.h.
template <>
inline World World::mpi(MPI_Comm communicator, const Options& options) {
  return of_communicator(&communicator, sizeof communicator, options);
}

}  // namespace coconet
