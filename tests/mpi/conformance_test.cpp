// Shipped programs under their schedules equal the reference on the ranks of an mpirun: every rank
// runs the same checks.
#include <catch2/catch.hpp>

#include "cli/check.h"
#include "coconet/coconet.h"
#include "jit/conformance/shipped_conformance.h"
#include "refusal.h"

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
    for (const programs::Precision& precision : shipped.precisions) {
      for (const std::string_view schedule : shipped.schedules) {
        INFO(to_text(precision));
        const Program program = shipped.build(shipped.mesh(world.size()), precision);
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

TEST_CASE("ops that ranks define in other orders are one op on all of them") {
  const World world = World::mpi();
  const auto define_cube = [] {
    return define_pointwise({.name = "cube",
                             .device = "a * a * a",
                             .reference = [](double a, double, double) { return a * a * a; }});
  };
  const auto define_half = [] {
    return define_pointwise({.name = "half",
                             .device = "0.5 * a",
                             .reference = [](double a, double, double) { return 0.5 * a; }});
  };
  if (world.rank() % 2 == 0) (void)define_cube();
  const PointwiseOp half = define_half(), cube = define_cube();
  Program program("step", Mesh::over(world));
  const Dim n = program.dim("n");
  const Value g = program.input("g", f32, {n}, local);
  const Value w = program.state("w", f32, {n}, replicated);
  const Value average = all_reduce(half(g), mean).named("average");
  update(w, w - cube(average));
  Schedule fused("fused");
  fused.split("average")
      .reorder("average.all_gather", {"w.new"})
      .fuse("step", "all_reduce", {"average.reduce_scatter", "w.all_gather", "w.new"});
  for (const Schedule& schedule : {Schedule("unfused"), fused}) {
    for (const Sizes& sizes : std::vector<Sizes>{{{"n", 1}}, {{"n", 4099}}})
      require_passes(program, schedule, world, sizes);
  }
}

TEST_CASE("ranks that define an op otherwise than rank 0 are named") {
  const World world = World::mpi();
  if (world.size() == 1) return;
  const PointwiseOp op =
      define_pointwise({.name = "twice",
                        .device = world.rank() == 1 ? "a * 2" : "a + a",
                        .reference = [](double a, double, double) { return a + a; }});
  Program program("step", Mesh::over(world));
  program.output("y", op(program.input("x", f32, {program.dim("n")}, local)).named("y"));
  CHECK(refusal<CommError>([&] {
          (void)compile(program, Schedule("none"), world, {{"n", 8}});
        }) ==
        "all ranks must compile the same, but rank 1 has another definition of an op than rank 0; "
        "rank " +
            std::to_string(world.rank()) +
            " has twice (1 operand, floating): " + op.definition().device);
}
