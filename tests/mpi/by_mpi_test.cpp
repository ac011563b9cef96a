// Library collectives by MPI alone, on all ranks of an mpirun.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coconet/coconet.h"
#include "jit/run/compile.h"
#include "mpi/own_calls.h"

namespace {

using namespace coconet;

TEST_CASE("collectives that are told to go by MPI do so also where others reach their tensors") {
  const World world = World::mpi();
  Program program("sum", Mesh::over(world));
  const Dim n = program.dim("n");
  program.output("y", all_reduce(program.input("x", f32, {n}, local), sum).named("total"));
  for (const std::int64_t length : {7, 100'000}) {
    for (const bool by_mpi : {false, true}) {
      Executable step = jit::compile_scheduled(program, Schedule("none"), world, {{"n", length}},
                                               {}, {.collectives_by_mpi = by_mpi});
      std::ranges::fill(step.data<float>("x"), static_cast<float>(world.rank() + 1));
      const std::span<float> y = step.data<float>("y");
      const int before = test::all_reduces;
      step.run();
      CHECK((test::all_reduces > before) == (by_mpi && world.size() > 1));
      const int ranks = world.size();
      const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
      CHECK(std::ranges::all_of(y, [&](float value) { return value == expected; }));
    }
  }
}

}  // namespace
