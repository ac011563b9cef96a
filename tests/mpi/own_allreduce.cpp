// Counting calls of MPI_Allreduce, making them fail, and stopping in them.
#include "mpi/own_allreduce.h"

#include <mpi.h>

#include <csignal>

namespace coconet::test {

int all_reduces = 0;
bool broken_all_reduce = false;
bool stops_inside = false;

}  // namespace coconet::test

extern "C" int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  ++coconet::test::all_reduces;
  if (coconet::test::broken_all_reduce) return MPI_ERR_COUNT;
  if (coconet::test::stops_inside) std::raise(SIGSTOP);
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
