// Automatic schedules where nothing was measured.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "jit/comm/require_on_rank.h"

using namespace coconet;

namespace {

constexpr std::size_t weights = 50;

/// The note of an automatic schedule, and others, as one text.
std::string notes_of(Executable& step) {
  std::string text;
  for (const std::string& note : step.report().notes) text += note + "\n";
  return text;
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
