// How soon after its launch a job has done its first step, beside a job that does nothing but start
// MPI: rank 0 prints the milliseconds since LAUNCHED, a time in seconds since the epoch.
#include <mpi.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "coconet/coconet.h"
#include "shipped.h"

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
  Executable adam = test::compile_shipped(world, "adam", "fused", 4096);
  for (const char* name : {"g", "w", "m", "v"}) (void)adam.data<float>(name);
  adam.run({{"lr", 1e-3}, {"t", 1}});
  report(world.rank());
}

}  // namespace

TEST_CASE("a job starts MPI", "[.bare]") {
  start_mpi();
}

TEST_CASE("a job does a step", "[.step]") {
  run_step();
}
