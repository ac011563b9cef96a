// Executables that begin anew.
#include <catch2/catch.hpp>

#include <vector>

#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "jit/run/state_checks.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t length = 3001;

/// The states of three steps of Adam from where `step` is, but for w, which begins with ones.
std::vector<std::vector<float>> train(Executable& step, int rank) {
  step.write("w", std::vector<float>(length, 1));
  for (int t = 1; t <= 3; ++t) {
    step.write("g", std::vector<float>(length, static_cast<float>(t * (rank + 2))));
    step.run({{"lr", 0.25}, {"t", t}});
  }
  std::vector<std::vector<float>> states;
  for (const char* const name : {"w", "m", "v"}) states.push_back(elements_of(step, name));
  return states;
}

}  // namespace

TEST_CASE("a training that is reset gives the same bits again, and counts from 0") {
  for (const char* const algorithm : {"direct", "ring", "tree"}) {
    for (const char* const protocol : {"simple", "ll", "ll128"}) {
      INFO(algorithm << " " << protocol);
      REQUIRE_NOTHROW(World::local(3, [&](World& world) {
        Knobs knobs;
        knobs.algorithm = algorithm;
        knobs.protocol = protocol;
        const Schedule schedule =
            Schedule()
                .split("avg")
                .reorder("avg.all_gather", {"*.new"})
                .fuse("fused", "all_reduce",
                      {"avg.reduce_scatter", "m.slice", "v.slice", "w.slice", "w.all_gather"},
                      knobs);
        Executable step =
            compile(programs::adam(Mesh::over(world)), schedule, world, {{"n", length}});
        const auto first = train(step, world.rank());
        if (train(step, world.rank()) == first) throw InternalError("steps change no state");
        step.reset();
        if (step.local_stats().runs != 0) throw InternalError("runs were not counted anew");
        if (elements_of(step, "m") != std::vector<float>(step.count("m"), 0))
          throw InternalError("m is not zero");
        if (train(step, world.rank()) != first) throw InternalError("the second training differs");
      }));
    }
  }
}

TEST_CASE("what is bound stays bound, and is zero; inputs stay as they are") {
  const World world = World::self();
  Executable step = compile_train(world, 8);
  std::vector<float> w(8, 3), g(8, 1);
  step.bind("w", w);
  step.bind("g", g);
  step.reset();
  CHECK(w == std::vector<float>(8, 0));
  CHECK(g == std::vector<float>(8, 1));
  step.run({{"lr", 1.0}});
  CHECK(w == std::vector<float>(8, -1));
}

TEST_CASE("states that are shared are zero for all who share them, and stay shared") {
  REQUIRE_NOTHROW(World::local(2, [](World& world) {
    Executable train = compile_train(world, 8), look = compile_look(world, 8);
    look.share_states(train);
    train.write("g", std::vector<float>(8, 1));
    train.write("w", std::vector<float>(8, 5));
    look.reset();
    train.run({{"lr", 1.0}});
    look.run();
    if (elements_of(train, "w") != std::vector<float>(8, 0) ||
        elements_of(look, "seen") != std::vector<float>(8, -1))
      throw InternalError("the states are others");
  }));
}

TEST_CASE("in a world that is over, reset throws as every call does") {
  const auto ends = outcomes_of(2, [](World& world) {
    Executable step = compile_train(world, 8);
    if (world.rank() == 1) world.abort("no more data");
    step.reset();
  });
  check_outcomes(ends, "CommError", Contains("no more data"));
}
