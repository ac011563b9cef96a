// Thread levels, by their names.
#include "jit/mpi/threads.h"

#include <fmt/format.h>
#include <mpi.h>

#include "coconet/error.h"

namespace coconet::jit {

std::string mpi_thread_problem(int provided, bool on_main_thread) {
  if (provided >= MPI_THREAD_SERIALIZED || on_main_thread) return {};
  return fmt::format(
      "MPI provides {}, and calls from a thread other than the one that initialised it need "
      "MPI_THREAD_SERIALIZED; initialise MPI by MPI_Init_thread with that level, or use "
      "coconet-jit from that thread only",
      provided == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SINGLE");
}

void require_mpi_thread() {
  static const int provided = [] {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level;
  }();
  if (provided >= MPI_THREAD_SERIALIZED) return;
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  const std::string problem = mpi_thread_problem(provided, is_main != 0);
  if (!problem.empty()) throw CommError(problem);
}

}  // namespace coconet::jit
