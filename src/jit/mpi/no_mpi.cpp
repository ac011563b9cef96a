// The MPI world of a library that was built without MPI.
#include "coconet/error.h"
#include "jit/mpi/world.h"

namespace coconet::jit {

std::shared_ptr<Comm> make_mpi_comm_of(const void*, std::size_t, const Options&) {
  return make_mpi_comm();
}

std::shared_ptr<Comm> make_mpi_comm(const Options&) {
  throw CommError(
      "this coconet-jit was built without MPI, so it has no world of processes; build it where MPI "
      "is installed, with -DCOCONET_MPI=ON, or use World::local or World::self");
}

MpiFacts mpi_facts() {
  return {};
}

}  // namespace coconet::jit
