// From which threads MPI may be called.
#pragma once

#include <string>

namespace coconet::jit {

/// Why MPI, initialised with the thread level `provided`, must not be called from this thread;
/// empty: it may be. No thread of the library calls MPI, so that below MPI_THREAD_SERIALIZED the
/// application's calls have to come from the thread that initialised MPI. MPI_THREAD_SINGLE counts
/// as MPI_THREAD_FUNNELED: MPI_Init alone gives no more, and implementations differ between the two
/// in nothing.
[[nodiscard]] std::string mpi_thread_problem(int provided, bool on_main_thread);

/// The level that MPI was initialised with, by whomever.
[[nodiscard]] int mpi_thread_level();
/// Throws CommError unless this thread may call MPI.
void require_mpi_thread();

}  // namespace coconet::jit
