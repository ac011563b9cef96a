// Checkpoints of processes: a job of one size saves, and jobs of others load.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "jit/run/checkpoint_checks.h"

using namespace coconet;
using namespace coconet::test;

namespace {

std::vector<StateOf> saved_along(const Layout& rows, const Layout& columns) {
  std::vector<StateOf> states = states_of_all_dtypes("rows_", rows);
  for (const StateOf& one : states_of_all_dtypes("columns_", columns)) states.push_back(one);
  states.push_back({"shared", f32, {700'000}, replicated});
  return states;
}

}  // namespace

TEST_CASE("the ranks of a job save a checkpoint", "[.][saves]") {
  const World world = World::mpi();
  const std::vector<StateOf> states = saved_along(sliced(0), sliced(1));
  Executable step = compile_states(world, states);
  write_known(step, world, states);
  REQUIRE_NOTHROW(step.save(std::getenv("CHECKPOINT"), {.metadata = {{"ranks", "all"}}}));
}

TEST_CASE("the ranks of another job load it", "[.][loads]") {
  const World world = World::mpi();
  const std::vector<StateOf> states = saved_along(sliced(1), replicated);
  Executable step = compile_states(world, states);
  CHECK(step.load(std::getenv("CHECKPOINT")).metadata.at("ranks") == "all");
  REQUIRE_NOTHROW(require_known(step, world, states));
}
