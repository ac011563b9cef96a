// How this process was started, and how it ends when something fails: under mpirun several
// processes run the same command, and what all of them have to say should be said once.
#pragma once

#include <functional>
#include <string_view>

#include "coconet/world.h"

namespace coconet::cli {

/// What an MPI launcher (mpirun, mpiexec, srun --mpi) told this process; rank 0 of 1 when there was
/// none.
struct Launch {
  bool by_mpi = false;
  int rank = 0;
};
[[nodiscard]] Launch launch();

/// Prints `coconet: <message>` on stderr.
void complain(std::string_view message);

/// An error before the ranks know each other, which every process finds by itself: process 0 prints
/// it at once, and its exit makes the launcher end the others. One that is still there seconds
/// later was alone, and prints it too. Returns `code`.
[[nodiscard]] int fail_alike(std::string_view message, int code);

/// Runs `body`, which does collective work, and returns its exit code. When it throws, prints the
/// error: rank 0 what it caught, the others only what no lower rank said. Never hangs: when the
/// other ranks do not fail as well within seconds, the process exits, upon which the launcher ends
/// the job.
[[nodiscard]] int guarded(const World& world, const std::function<int()>& body);

}  // namespace coconet::cli
