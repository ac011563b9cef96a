// World::mpi: what libcoconet-jit-mpi adds to the API.
#include "coconet/world.h"
#include "jit/comm/access.h"
#include "jit/mpi/world.h"

namespace coconet {

World World::mpi(const Options& options) {
  return jit::Access::world(jit::make_mpi_comm(options));
}

World World::of_communicator(const void* handle, std::size_t bytes, const Options& options) {
  return jit::Access::world(jit::make_mpi_comm_of(handle, bytes, options));
}

}  // namespace coconet
