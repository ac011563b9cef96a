// A test case that overlap_test.cpp runs in a process of its own.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "refusal.h"

using namespace coconet;
using Catch::Contains;

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
    for (double& element : step.buffer<double>(name)) element = 1;
  }
  return step;
}

}  // namespace

TEST_CASE("a product that takes long", "[.late_tiles]") {
  const World world = World::self();
  Executable step = compile_overlapped(world, 3000);
  const std::string told = refusal([&] { step.run(); });
  CHECK_THAT(told, Contains("rank 0 waited 0.002 s for its own step 'product' in kernel 'gathers' "
                            "(step 2 of 2), for tiles that it makes, block 0: expected flag ") &&
                       Contains("; that step is slow, stuck or failed (COCONET_TIMEOUT_S sets the "
                                "limit)"));
  CHECK_THAT(refusal([&] { step.run(); }),
             Contains("this executable cannot run any more, because in an earlier step rank 0"));
}
