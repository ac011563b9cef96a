// Steps that run at once: what the report says of them, and what a kernel says whose tiles come
// late.
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "require_exit.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("steps that run at once are reported one by one") {
  const World world = World::self();
  Executable step =
      compile(programs::mlp_block(Mesh::over(world)), Schedule::load("mlp_block-overlapped.json"),
              world, {{"B", 3}, {"S", 5}, {"H", 7}, {"F", 11}});
  for (const char* name : {"x", "w", "b", "r"}) (void)step.data<float>(name);
  for (int run = 0; run < 3; ++run) step.run({{"t", 1}});
  const Report report = step.report();
  REQUIRE(report.kernels.size() == 2);
  CHECK(report.kernels[0].name == "layer");
  CHECK(report.kernels[0].ms > 0);
  CHECK(report.kernels[1].name == "mlp_block_fused");
  CHECK(report.kernels[1].ms > 0);
}

TEST_CASE("steps of an overlap without room run in order, as the kernels without one") {
  (void)require_exit(run_test_case(".overlap_off", "COCONET_OVERLAP=off"));
  (void)require_exit(run_test_case(".overlap_on", "COCONET_OVERLAP=on"));
}

TEST_CASE("a kernel whose tiles come late says which step it waited for") {
  (void)require_exit(run_test_case(".late_tiles", "COCONET_TIMEOUT_S=0.002 COCONET_OVERLAP=on"));
}
