// The process of tuning_store_test.cpp that tunes in a world of its own threads.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/meeting.h"
#include "on_threads.h"

using namespace coconet;

TEST_CASE("ranks that a Bootstrap brings together tune a step", "[.][tunes-in-a-bootstrap]") {
  test::Meeting meeting(2);
  test::on_threads(2, [&](int rank) {
    const World world = World::from(meeting.of(rank));
    const Program program = programs::adam(Mesh::over(world));
    std::vector<float> weights[2];
    for (const bool is_tuned : {false, true}) {
      Executable step = is_tuned ? compile(program, world, {{"n", 1000}})
                                 : compile(program, Schedule(), world, {{"n", 1000}});
      step.write("w", std::vector<float>(1000, 1));
      step.write("g", std::vector<float>(1000, static_cast<float>(rank + 1)));
      step.run({{"lr", 0.25}, {"t", 1}});
      weights[is_tuned] = test::whole_of(step, "w");
    }
    const auto is_right = [](float w) { return std::abs(w - 0.75F) < 1e-5F; };
    if (!std::ranges::all_of(weights[0], is_right) || !std::ranges::all_of(weights[1], is_right))
      throw std::runtime_error("the weights are wrong");
    world.barrier();
  });
}
