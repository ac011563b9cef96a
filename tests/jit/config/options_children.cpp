// What options_test runs in processes of their own, whose environment it chooses.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "child_process.h"
#include "coconet/coconet.h"

using namespace coconet;
using Catch::Matchers::Contains;

namespace {

/// y = the sum of x * factor; its kernel has the factor in it.
Executable compile_sum(const World& world, double factor, const Options& options = {}) {
  Program program("sum", Mesh::over(world));
  const Dim n = program.dim("n", 64);
  program.output("y", sum(program.input("x", f32, {n}, replicated) * factor));
  return compile(program, Schedule(), world, {}, {}, options);
}

}  // namespace

TEST_CASE("options of a world hold for all that is compiled there, those of compile over them",
          "[.options-directories]") {
  const test::ScratchDirectory scratch;
  const std::filesystem::path of_world = scratch.path() / "world",
                              of_step = scratch.path() / "step";
  const World world = World::self({.cache_dir = of_world});
  (void)compile_sum(world, 2);
  const int compiled = test::files_in(of_world);
  CHECK(compiled > 0);
  World::local(2, [&](World& pair) { (void)compile_sum(pair, 3, {.cache_dir = of_step}); });
  CHECK(test::files_in(of_step) > 0);
  CHECK(test::files_in(of_world) == compiled);
  CHECK_THROWS_WITH(compile_sum(world, 4, {.overlap = "maybe"}),
                    Contains("Options::overlap is 'maybe'"));
}

// An application as others would write it. How it is configured comes from outside.
TEST_CASE("application", "[.options-application]") {
  const char* const directory = std::getenv("TEST_CACHE");
  Options options;
  if (directory != nullptr) options = {.cache_dir = directory, .log_level = "info"};
  Executable step = compile_sum(World::self(options), 1);
  step.write("x", std::vector<float>(64, 1.0f));
  step.run();
  std::cout << "sum " << step.scalar_of<float>("y") << '\n';
}
