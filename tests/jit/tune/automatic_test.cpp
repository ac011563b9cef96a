// Automatic schedules where nothing was measured, and memory that their kernels do not reach.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "jit/comm/rank_outcomes.h"
#include "refusal.h"

using namespace coconet;
using namespace coconet::test;
using Catch::Contains;

namespace {

constexpr std::size_t weights = 50;

/// The note of an automatic schedule, and others, as one text.
std::string notes_of(Executable& step) {
  std::string text;
  for (const std::string& note : step.report().notes) text += note + "\n";
  return text;
}

std::vector<float> gradient_of(const World& world) {
  std::vector<float> gradient(weights);
  for (std::size_t i = 0; i < weights; ++i)
    gradient[i] = static_cast<float>(i + 1) * (world.rank() == 0 ? 0.5F : -0.25F);
  return gradient;
}

/// The parameters after two steps of Adam, in the library's memory.
std::vector<float> expected_of(const World& world, const Program& program) {
  Executable step = compile(program, Schedule(), world, {{"n", weights}});
  step.write("g", gradient_of(world));
  step.write("w", std::vector<float>(weights, 1));
  for (const double t : {1, 2}) step.run({{"lr", 0.1}, {"t", t}});
  std::vector<float> w(weights);
  step.read("w", w);
  return w;
}

/// s += all_reduce(x), under no name that ships.
Program counting(const World& world) {
  Program program("counting", Mesh::over(world));
  const Dim dim = program.dim("n", weights);
  const Value x = program.input("x", f32, {dim}, local);
  const Value s = program.state("s", f32, {dim}, replicated);
  update(s, s + all_reduce(x, sum).named("total"));
  return program;
}

bool is_one_kernel(const Executable& step) {
  return step.sources().size() == 1 && step.plan().find("library") == std::string::npos;
}

}  // namespace

TEST_CASE("a program that ships runs as its fused schedule says where nothing was measured") {
  World::local(2, [](World& world) {
    const Program program = programs::adam(Mesh::over(world));
    Executable step = compile(program, world, {{"n", weights}});
    REQUIRE_ON_RANK(is_one_kernel(step));
    REQUIRE_ON_RANK(step.count("m") == weights / 2);
    const std::string notes = notes_of(step);
    REQUIRE_ON_RANK(notes.find("the automatic schedule is 'adam-fused'") != std::string::npos);
  });
}

TEST_CASE("what the program keeps whole stays so") {
  World::local(2, [](World& world) {
    Program program = programs::adam(Mesh::over(world));
    program.may_slice({"m"}, false);
    Executable step = compile(program, world, {{"n", weights}});
    REQUIRE_ON_RANK(step.count("m") == weights);
    const std::string notes = notes_of(step);
    REQUIRE_ON_RANK(notes.find("'adam-predicted': it is predicted to be quick") !=
                    std::string::npos);
  });
}

TEST_CASE("a program of one's own gets what is predicted to be quick") {
  World::local(2, [](World& world) {
    Executable step = compile(counting(world), world);
    REQUIRE_ON_RANK(is_one_kernel(step));
    step.write("x", std::vector<float>(weights, 1));
    step.run();
    step.run();
    std::vector<float> s(weights);
    step.read("s", s);
    REQUIRE_ON_RANK(s == std::vector<float>(weights, 4));
  });
}

TEST_CASE(
    "memory that other ranks do not reach, of one rank or of all, is found at the first step") {
  for (const bool all : {true, false}) {
    World::local(2, [&](World& world) {
      const Program program = programs::adam(Mesh::over(world));
      const std::vector<float> expected = expected_of(world, program);
      Executable step = compile(program, world, {{"n", weights}});
      std::vector<float> g = gradient_of(world), w(weights, 1);
      step.write("m", std::vector<float>(weights / 2));
      if (all || world.rank() == 1) {
        step.bind("g", g);
        step.bind("w", w);
      } else {
        step.write("g", g);
        step.write("w", w);
      }
      for (const double t : {1, 2}) step.run({{"lr", 0.1}, {"t", t}});
      REQUIRE_ON_RANK(step.count("m") == weights / 2);
      step.read("w", w);
      REQUIRE_ON_RANK(w == expected);
      const std::string notes = notes_of(step);
      REQUIRE_ON_RANK(notes.find("bound to memory that other ranks do not reach, so the schedule "
                                 "is 'adam-fused-without-exchanges'") != std::string::npos);
      // What was written before is kept, and what is bound later may be anywhere.
      std::vector<float> other = gradient_of(world);
      step.bind("g", other);
      step.run({{"lr", 0.1}, {"t", 3}});
    });
  }
}

TEST_CASE("from the first step on the plan is settled") {
  const auto ends = outcomes_of(2, [](World& world) {
    Executable step = compile(programs::adam(Mesh::over(world)), world, {{"n", weights}});
    step.write("g", gradient_of(world));
    step.run({{"lr", 0.1}, {"t", 1}});
    std::vector<float> g(weights);
    step.bind("g", g);
  });
  check_outcomes(ends, "BackendError",
                 Contains("is reached by other ranks from inside a kernel, which the memory given "
                          "is not open to"));
}

TEST_CASE("scattered parameters in the application's memory get a plan that allows it") {
  World::local(2, [](World& world) {
    const Program whole = programs::adam(Mesh::over(world));
    const std::vector<float> expected = expected_of(world, whole);
    const Program program =
        programs::adam(Mesh::over(world), f32, {}, programs::Storage::scattered);
    Executable step = compile(program, world, {}, {{"n", {20, 30}}});
    std::vector<float> g = gradient_of(world), w(weights, 1);
    const auto pieces = [](std::vector<float>& of) {
      return std::vector<std::span<float>>{std::span(of).first(20), std::span(of).subspan(20)};
    };
    step.bind("g", pieces(g));
    step.bind("w", pieces(w));
    for (const double t : {1, 2}) step.run({{"lr", 0.1}, {"t", t}});
    REQUIRE_ON_RANK(w == expected);
  });
}

TEST_CASE("states that are shared stay shared when the plan changes") {
  World::local(2, [](World& world) {
    Program look("look", Mesh::over(world));
    const Dim dim = look.dim("n", weights);
    look.output("twice", 2 * look.state("w", f32, {dim}, replicated));
    const Program program = programs::adam(Mesh::over(world));
    const std::vector<float> expected = expected_of(world, program);
    Executable train = compile(program, world, {{"n", weights}});
    Executable evaluate = compile(look, world, {{"n", weights}});
    std::vector<float> g = gradient_of(world), w(weights, 1);
    evaluate.bind("w", w);
    train.share_states(evaluate);
    train.bind("g", g);
    for (const double t : {1, 2}) {
      train.run({{"lr", 0.1}, {"t", t}});
      evaluate.run();
    }
    REQUIRE_ON_RANK(w == expected);
    std::vector<float> twice(weights);
    evaluate.read("twice", twice);
    for (std::size_t i = 0; i < weights; ++i) REQUIRE_ON_RANK(twice[i] == 2 * w[i]);
  });
}

TEST_CASE("steps that share states and are not settled allow any memory, also after a resize") {
  World::local(2, [](World& world) {
    const Program program = programs::adam(Mesh::over(world));
    const std::vector<float> expected = expected_of(world, program);
    Executable one = compile(program, world, {{"n", 2 * weights}});
    one.resize({{"n", weights}});
    Executable other = compile(program, world, {{"n", weights}});
    other.share_states(one);
    std::vector<float> g = gradient_of(world), w(weights, 1);
    one.bind("g", g);
    other.bind("g", g);
    one.bind("w", w);
    one.run({{"lr", 0.1}, {"t", 1}});
    other.run({{"lr", 0.1}, {"t", 2}});
    REQUIRE_ON_RANK(w == expected);
  });
}
