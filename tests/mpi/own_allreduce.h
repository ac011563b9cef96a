// The MPI_Allreduce of the test program, which the library calls in the place of MPI's.
#pragma once

namespace coconet::test {

extern int all_reduces;         ///< calls so far
extern bool broken_all_reduce;  ///< whether it fails
extern bool stops_inside;       ///< whether this process is stopped in it

}  // namespace coconet::test
