// The world of MPI's processes, and what `doctor` says of MPI. In builds without MPI no_mpi.cpp is
// in the place of the other files of this folder.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "coconet/options.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// Throws CommError when the library was built without MPI.
[[nodiscard]] std::shared_ptr<Comm> make_mpi_comm(const Options& options = {});
/// A world of a communicator's ranks: `handle` points to the MPI_Comm, `bytes` is its size. A
/// communicator has one world until it is freed.
[[nodiscard]] std::shared_ptr<Comm> make_mpi_comm_of(const void* handle, std::size_t bytes,
                                                     const Options& options = {});

struct MpiFacts {
  bool built = false;
  std::string version;  ///< "Open MPI v4.1.4"
};
[[nodiscard]] MpiFacts mpi_facts();

}  // namespace coconet::jit
