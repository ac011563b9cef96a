// Checkpoints of states in a GPU's memory, on the emulated driver.
#include <catch2/catch.hpp>

#include "child_process.h"
#include "elements.h"
#include "jit/run/checkpoint_checks.h"
#include "programs.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("states on GPUs are saved and loaded bit by bit, by any number of ranks") {
  const Setting devices("STUB_CUDA_DEVICES", "2");
  std::vector<StateOf> states = states_of_all_dtypes("rows_", sliced(0));
  for (const StateOf& one : states_of_all_dtypes("columns_", sliced(1))) states.push_back(one);
  states.push_back({"large", f32, {5'000'000}, replicated});  // several pieces are staged
  const ScratchDirectory scratch;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = compile_states(world, states);
    write_known(step, world, states);
    step.save(scratch.path() / "saved");
  }));
  for (const int ranks : {1, 2}) {
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      Executable step = compile_states(world, states);
      (void)step.load(scratch.path() / "saved");
      require_known(step, world, states);
    }));
  }
}

TEST_CASE("a save on a GPU has the states after all steps before it") {
  const ScratchDirectory scratch;
  REQUIRE_NOTHROW(World::local(2, [&](World& world) {
    Executable step = scale(world, 1000);
    const std::vector<float> start(1000, static_cast<float>(world.rank() + 1));
    step.write("x", start);
    for (int i = 0; i < 10; ++i) step.run({{"factor", 2}});
    step.save(scratch.path() / "saved");
    step.run({{"factor", 0}});
    (void)step.load(scratch.path() / "saved");
    step.run({{"factor", 2}});
    REQUIRE_ON_RANK(elements_of(step, "x") ==
                    std::vector<float>(1000, 2048 * static_cast<float>(world.rank() + 1)));
  }));
}
