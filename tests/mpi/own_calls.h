// The functions of MPI that the library calls, as the test program has them in the place of MPI's:
// each can be where a rank is lost.
#pragma once

namespace coconet::test {

extern int all_reduces;         ///< calls of MPI_Allreduce so far
extern bool broken_all_reduce;  ///< whether it fails
extern bool stops_inside;       ///< whether this process is stopped in it

/// Called in front of each call of MPI, if it is not null, with its name and how often that has
/// been called before. The process may end in it.
extern void (*before_call)(const char* name, int calls);

}  // namespace coconet::test
