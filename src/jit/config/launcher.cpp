// The environment variables of launchers.
#include "jit/config/launcher.h"

#include <array>
#include <cstdlib>

#include "jit/config/parse.h"

namespace coconet::jit {
namespace {

struct Launcher {
  const char *rank, *ranks, *ranks_of_node;
  bool is_mpi;
};

constexpr std::array<Launcher, 4> launchers{
    {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", true},  // MPICH, Intel MPI, srun --mpi=pmi2
     {"PMIX_RANK", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", true},  // srun --mpi=pmix
     {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", false}}};

/// A number of at least 0.
std::optional<int> number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  int number = 0;
  if (value == nullptr || !parse_number(value, number) || number < 0) return {};
  return number;
}

}  // namespace

Launched told_by_launcher() {
  for (const Launcher& launcher : launchers) {
    if (const std::optional<int> rank = number_in(launcher.rank)) {
      const int ranks = number_in(launcher.ranks).value_or(0);
      return {launcher.rank, launcher.is_mpi, *rank, *rank < ranks ? ranks : 0,
              number_in(launcher.ranks_of_node).value_or(0)};
    }
  }
  return {};
}

}  // namespace coconet::jit
