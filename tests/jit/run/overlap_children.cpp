// A test case that overlap_test.cpp runs in a process of its own.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// A product of n x n, and the kernel that doubles and gathers it.
Executable compile_overlapped(const World& world, std::int64_t n) {
  Program p("late", Mesh::over(world));
  const Dim side = p.dim("n");
  const Value a = p.input("a", f64, {side, side}, sliced(0));
  const Value product = matmul(a, p.input("b", f64, {side, side}, replicated)).named("product");
  p.output("y", all_gather((product * 2).named("twice")).named("whole"));
  const Schedule schedule =
      Schedule().fuse("gathers", "all_gather", {"twice", "whole"}).overlap({"product", "gathers"});
  Executable step = compile(p, schedule, world, {{"n", n}});
  for (const char* name : {"a", "b"}) {
    for (double& element : step.data<double>(name)) element = 1;
  }
  return step;
}

}  // namespace

TEST_CASE("an overlap that is off", "[.overlap_off]") {
  const World world = World::self();
  const Program program = programs::mlp_block(Mesh::over(world));
  const Sizes sizes = {{"B", 3}, {"S", 5}, {"H", 7}, {"F", 11}};
  Executable overlapped =
      compile(program, Schedule::load("mlp_block-overlapped.json"), world, sizes);
  const Executable fused = compile(program, Schedule::load("mlp_block-fused.json"), world, sizes);
  CHECK(overlapped.plan() == fused.plan());
  CHECK(overlapped.sources() == fused.sources());
  const Report report = overlapped.report();
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] ==
        "steps 'layer' to 'mlp_block_fused' run one after the other: COCONET_OVERLAP is off");
  CHECK_THAT(report.str(), Catch::Matchers::Contains(report.notes[0]));
}

TEST_CASE("an overlap that is on", "[.overlap_on]") {
  const World world = World::self();
  Executable step =
      compile(programs::mlp_block(Mesh::over(world)), Schedule::load("mlp_block-overlapped.json"),
              world, {{"B", 3}, {"S", 5}, {"H", 7}, {"F", 11}});
  CHECK_THAT(step.plan(), Catch::Matchers::Contains("at once: steps 1 to 2"));
  CHECK(step.report().notes.empty());
}

TEST_CASE("a product that takes long", "[.late_tiles]") {
  const World world = World::self();
  Executable step = compile_overlapped(world, 3000);
  const std::string told = refusal([&] { step.run(); });
  CHECK_THAT(told, StartsWith("rank 0 waited in kernel 'gathers' (step 2 of 2), block 0, for tiles "
                              "of its own step 'product' (expected flag ") &&
                       EndsWith("), which were not made within 0.002 s, the limit that "
                                "COCONET_TIMEOUT_S sets"));
  CHECK_THAT(refusal([&] { step.run(); }),
             Contains("this executable cannot run any more, because in an earlier step rank 0"));
}
