// Worlds of the application's own MPI communicators. The only public header that includes MPI's.
#pragma once

#include <mpi.h>

#include "coconet/world.h"

namespace coconet {

/// @copydoc World::mpi(Communicator)
template <>
inline World World::mpi(MPI_Comm communicator) {
  return of_communicator(&communicator, sizeof communicator);
}

}  // namespace coconet
