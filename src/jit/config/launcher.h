// What the launcher of a job tells the processes that it starts, in their environment.
#pragma once

#include "coconet/export.h"

namespace coconet::jit {

struct Launched {
  const char* rank_variable = nullptr;  ///< which has the rank; null: there is no launcher
  bool is_mpi = false;    ///< what it starts is a rank of MPI's; Slurm numbers others, too
  int rank = 0;           ///< at least 0
  int ranks = 0;          ///< of the job; 0: not told
  int ranks_of_node = 0;  ///< of those, here; 0: not told
};

/// As Open MPI, MPICH, Intel MPI or Slurm tell this process.
[[nodiscard]] COCONET_API Launched told_by_launcher();

}  // namespace coconet::jit
