// Shipped programs under their schedules equal the reference on the ranks of an mpirun: every rank
// runs the same checks.
#include <catch2/catch.hpp>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

namespace {

void require_passes(const Program& program, const Schedule& schedule, const World& world,
                    const Sizes& sizes) {
  if (!draw()) return;
  INFO(program.name() << " under " << schedule.name() << " on " << world.size() << " ranks, "
                      << to_text(sizes));
  const cli::CheckResult result = cli::run_check(program, schedule, world, sizes);
  INFO(result.failure);
  // What is wrong is wrong on all ranks, which so end together.
  REQUIRE(result.passed);
  REQUIRE(result.bit_identical);
}

}  // namespace

TEST_CASE(
    "every shipped program under every schedule equals the reference in every float dtype and "
    "size") {
  const World world = World::mpi();
  for (const programs::Shipped& shipped : programs::shipped()) {
    const auto ranks = ranks_of(shipped);
    if (std::find(ranks.begin(), ranks.end(), world.size()) == ranks.end()) continue;
    for (const DType dtype : shipped.dtypes) {
      for (const std::string_view schedule : shipped.schedules) {
        INFO(to_string(dtype));
        const Program program = shipped.build(shipped.mesh(world.size()), dtype);
        for (const Sizes& sizes : sizes_of(program)) {
          require_passes(program, shipped_schedule(shipped, schedule), world, sizes);
        }
      }
    }
  }
}

TEST_CASE("adam on a million elements equals the reference under every schedule") {
  const World world = World::mpi();
  const programs::Shipped& adam = *programs::find("adam");
  for (const std::string_view schedule : adam.schedules) {
    require_passes(programs::adam(Mesh::over(world)), shipped_schedule(adam, schedule), world,
                   {{"n", 1048583}});
  }
}

TEST_CASE("all_to_all between processes equals the reference, small, large and in peer memory") {
  const World world = World::mpi();
  Program program("reshard", Mesh::over(world));
  const Dim n = program.dim("n"), m = program.dim("m");
  const Value rows = program.state("rows", f32, {n, m}, sliced(0));
  const Value columns = all_to_all(rows, 1).named("columns");
  program.output("columns", columns);
  program.output("again", all_to_all(columns * 2, 0).named("again"));
  for (const Sizes& sizes :
       std::vector<Sizes>{{{"n", 1}, {"m", 1}}, {{"n", 7}, {"m", 17}}, {{"n", 1031}, {"m", 517}}})
    require_passes(program, Schedule("none"), world, sizes);
}
