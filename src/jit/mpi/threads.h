// From which threads MPI may be called; `World::mpi` states the rule.
#pragma once

#include <string>

namespace coconet::jit {

/// Why MPI, initialised with the thread level `provided`, must not be called from this thread;
/// empty: it may be. No thread of the library's own calls MPI. MPI_THREAD_SINGLE counts as
/// MPI_THREAD_FUNNELED: MPI_Init alone gives no more.
[[nodiscard]] std::string mpi_thread_problem(int provided, bool on_main_thread);
/// Throws CommError unless this thread may call MPI.
void require_mpi_thread();

}  // namespace coconet::jit
