// Memory of the application's that kernels cannot reach from other ranks: each step copies.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/require_on_rank.h"

using namespace coconet;
using namespace coconet::test;

namespace {

constexpr std::size_t weights = 50;

std::vector<float> gradient_of(const World& world) {
  std::vector<float> gradient(weights);
  for (std::size_t i = 0; i < weights; ++i)
    gradient[i] = static_cast<float>(i + 1) * (world.rank() == 0 ? 0.5F : -0.25F);
  return gradient;
}

void take_steps(Executable& step, int steps) {
  for (int t = 1; t <= steps; ++t) step.run({{"lr", 0.1}, {"t", t}});
}

/// The parameters after two steps of Adam without a schedule, in the library's memory.
std::vector<float> expected_of(const World& world) {
  const Program program = programs::adam(Mesh::over(world));
  Executable step = compile(program, Schedule(), world, {{"n", weights}});
  step.write("g", gradient_of(world));
  step.write("w", std::vector<float>(weights, 1));
  take_steps(step, 2);
  std::vector<float> w(weights);
  step.read("w", w);
  return w;
}

std::string notes_of(Executable& step) {
  std::string text;
  for (const std::string& note : step.report().notes) text += note + "\n";
  return text;
}

}  // namespace

TEST_CASE("memory that other ranks do not reach, of one rank or of all, is copied at each step") {
  for (const bool all : {true, false}) {
    World::local(2, [&](World& world) {
      const std::vector<float> expected = expected_of(world);
      Executable step = compile(programs::adam(Mesh::over(world)),
                                Schedule::load("adam-fused.json"), world, {{"n", weights}});
      std::vector<float> w(weights, 1);
      const std::vector<float> g = gradient_of(world);
      const bool binds = all || world.rank() == 1;
      if (binds) {
        step.bind("g", g);
        step.bind("w", w);
      } else {
        step.write("g", g);
        step.write("w", w);
      }
      take_steps(step, 2);
      std::vector<float> read(weights);
      step.read("w", read);
      REQUIRE_ON_RANK(read == expected);
      if (binds) REQUIRE_ON_RANK(w == expected);
      const std::string notes = notes_of(step);
      REQUIRE_ON_RANK((notes.find("each step copies 'g', 'w', because other ranks do not reach") !=
                       std::string::npos) == binds);
    });
  }
}

TEST_CASE("what an application changes in its memory counts, and later bindings do") {
  World::local(2, [](World& world) {
    const Program program = programs::sgd(Mesh::over(world));
    Executable step = compile(program, Schedule::load("sgd-fused.json"), world, {{"n", 3}});
    std::vector<float> g(3, 1), w(3, 1), other(3, 10);
    step.bind("g", g);
    step.bind("w", w);
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(w == std::vector<float>(3, 0));
    g[1] = 2;
    w[2] = 5;
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(w == std::vector<float>{-1, -2, 4});
    step.bind("w", other);
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(w == std::vector<float>{-1, -2, 4});
    REQUIRE_ON_RANK(other == std::vector<float>{9, 8, 9});
    const Buffer buffer = world.allocate(f32, 3);
    step.bind("w", buffer);
    step.bind("g", world.allocate(f32, 3));
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(notes_of(step).empty());
  });
}

TEST_CASE("scattered parameters may be anywhere, whole and after a resize") {
  World::local(2, [](World& world) {
    const std::vector<float> expected = expected_of(world);
    const Program program =
        programs::adam(Mesh::over(world), f32, {}, programs::Storage::scattered);
    Executable step = compile(program, Schedule::load("adam-fused.json"), world, {}, {{"n", {7}}});
    std::vector<float> g = gradient_of(world), w(weights, 1);
    const auto pieces = [](std::vector<float>& of) {
      return std::vector<std::span<float>>{std::span(of).first(20), std::span(of).subspan(20)};
    };
    step.resize({}, {{"n", {20, 30}}});
    step.bind("g", pieces(g));
    step.bind("w", pieces(w));
    take_steps(step, 2);
    REQUIRE_ON_RANK(w == expected);
  });
}
