// Hello, ranks: c = all_reduce(a, sum) + b. Run it with `mpirun -n 2 01_allreduce_add`.
#include <array>
#include <cstdio>

#include "coconet/coconet.h"

int main() {
  using namespace coconet;
  const World world = World::mpi();

  // What to compute: `a` differs from rank to rank (local), `b` and the result do not (replicated).
  Program program("hello", Mesh::over(world));
  const Value a = program.input("a", f32, {4}, local);
  const Value b = program.input("b", f32, {4}, replicated);
  program.output("c", all_reduce(a, sum) + b);

  // How to run it: an empty schedule leaves the steps as they are written.
  Executable step = compile(program, Schedule(), world);
  const float own = static_cast<float>(world.rank() + 1);
  step.write("a", std::array{own, own, own, own});
  step.write("b", std::array{0.0f, 10.0f, 20.0f, 30.0f});
  step.run();
  std::array<float, 4> c{};
  step.read("c", c);

  if (world.rank() == 0) std::printf("c = %g %g %g %g\n", c[0], c[1], c[2], c[3]);
}
