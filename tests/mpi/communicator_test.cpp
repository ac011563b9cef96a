// Worlds of the application's own communicators, on all ranks of an mpirun.
#include "coconet/mpi.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/access.h"
#include "jit/comm/comm_checks.h"
#include "jit/mpi/world.h"

namespace {

using namespace coconet;
using Catch::Matchers::Contains;

/// The sum of every rank's 1, by a fused kernel.
float ranks_by_sum(const World& world) {
  Program program("sum", Mesh::over(world));
  const Dim n = program.dim("n", 100);
  program.output("y", all_reduce(program.input("x", f32, {n}, local), sum).named("total"));
  Executable step = compile(program, Schedule().fuse("k", "all_reduce", {"total"}), world);
  std::ranges::fill(step.data<float>("x"), 1.0f);
  step.run();
  return step.data<float>("y").back();
}

/// The ranks of MPI_COMM_WORLD whose numbers are odd, or even.
MPI_Comm half_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  return half;
}

TEST_CASE("a communicator's ranks are a world, beside others of the same process") {
  const World all = World::mpi();
  MPI_Comm communicator = half_of_world();
  int ranks = 0, rank = 0;
  MPI_Comm_size(communicator, &ranks);
  MPI_Comm_rank(communicator, &rank);
  {
    const World half = World::mpi(communicator);
    CHECK(half.size() == ranks);
    CHECK(half.rank() == rank);
    CHECK(jit::Access::comm(half) != jit::Access::comm(all));
    CHECK(jit::Access::comm(World::mpi(communicator)) == jit::Access::comm(half));
    CHECK(jit::Access::comm(World::mpi(MPI_COMM_WORLD)) == jit::Access::comm(all));
    for (int time = 0; time < 2; ++time) {
      CHECK(ranks_by_sum(half) == static_cast<float>(ranks));
      CHECK(ranks_by_sum(all) == static_cast<float>(all.size()));
    }
    // Of memory that nobody else reaches, by every way.
    test::Group group(jit::comm_of(half));
    for (const int elements : {8192, 8193, 65536, 65537}) {
      const std::vector<std::size_t> counts(ranks, elements / ranks);
      REQUIRE_NOTHROW(test::check_collectives(group, counts, f32, Reduction::sum));
    }
  }
  all.barrier();
  MPI_Comm_free(&communicator);
  all.barrier();
  CHECK(ranks_by_sum(all) == static_cast<float>(all.size()));
}

TEST_CASE("what is no communicator of one group is refused") {
  const World all = World::mpi();
  CHECK_THROWS_WITH(World::mpi(MPI_COMM_NULL), Contains("was given MPI_COMM_NULL"));
  const char other = 0;
  CHECK_THROWS_WITH(jit::make_mpi_comm_of(&other, sizeof other),
                    Contains("was given a communicator of 1 bytes"));
  CHECK_THROWS_WITH(World::mpi({.timeout = std::chrono::seconds(1)}),
                    Contains("was given other Options than before for the same communicator"));
  CHECK_NOTHROW(World::mpi({.log_level = "warn"}));
  if (all.size() == 1) return;
  MPI_Comm half = half_of_world(), both = MPI_COMM_NULL;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - all.rank() % 2, 0, &both);
  CHECK_THROWS_WITH(World::mpi(both), Contains("was given an intercommunicator"));
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

}  // namespace
