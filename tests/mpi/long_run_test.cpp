// Long runs on all ranks of an mpirun: nothing grows.
#include "coconet/mpi.h"

#include <catch2/catch.hpp>

#include "jit/run/long_run_checks.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("100,000 steps of an MPI world do not grow") {
  const World world = World::mpi();
  const int steps = static_cast<int>(share_of(100'000));
  for (const LongRun& run : long_runs) {
    INFO(run.name << ", " << steps << " steps");
    std::string grown;
    REQUIRE_NOTHROW(grown = growth_of_steps(world, run, steps));
    CHECK(grown == "");
  }
}

TEST_CASE("1,000 executables of an MPI world that come and go leave nothing behind") {
  const World world = World::mpi();
  std::string grown;
  REQUIRE_NOTHROW(grown = growth_of_executables(world, static_cast<int>(share_of(1000))));
  CHECK(grown == "");
}

TEST_CASE("100 worlds of communicators that come and go leave nothing behind") {
  const int worlds = static_cast<int>(share_of(100, 20));
  const World all = World::mpi();
  Holdings before;
  for (int made = 1; made <= worlds; ++made) {
    MPI_Comm communicator = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    {
      const World world = World::mpi(communicator);
      Executable step = compile_sum(world, long_runs[made % std::size(long_runs)], 300);
      step.write("g", std::vector<float>(300, 1));
      step.run();
      world.barrier();
    }
    MPI_Comm_free(&communicator);
    if (made == worlds / 2) before = holdings_at_rest(all);
  }
  CHECK(growth(before, holdings_at_rest(all)) == "");
}
