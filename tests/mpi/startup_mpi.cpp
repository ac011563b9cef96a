// How soon after its launch a job has done its first step, beside a job that does nothing but start
// MPI: rank 0 prints the milliseconds since LAUNCHED, a time in seconds since the epoch. Usage:
// startup_mpi bare | startup_mpi step
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "coconet/coconet.h"

namespace {

void report(int rank) {
  const char* launched = std::getenv("LAUNCHED");
  if (rank != 0 || launched == nullptr) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("%.3f\n", (now.count() - std::atof(launched)) * 1e3);
}

void start_mpi() {
  MPI_Init(nullptr, nullptr);
  MPI_Barrier(MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  report(rank);
  MPI_Finalize();
}

void run_step() {
  using namespace coconet;
  const World world = World::mpi();
  Executable adam = compile(programs::adam(Mesh::over(world)), Schedule::load("adam-fused.json"),
                            world, {{"n", 4096}});
  for (const char* name : {"g", "w", "m", "v"}) (void)adam.buffer<float>(name);
  adam.run({{"lr", 1e-3}, {"t", 1}});
  report(world.rank());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "bare") {
    start_mpi();
  } else {
    run_step();
  }
  return 0;
}
