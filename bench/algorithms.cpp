// Times an AllReduce of f32 inside a kernel, with every algorithm and every protocol, against
// MPI_Allreduce and against the library's own AllReduce outside of kernels: which is fastest where.
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "memory.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace {

constexpr const char* algorithms[] = {"direct", "ring", "tree"};
constexpr const char* protocols[] = {"simple", "ll", "ll128"};

/// The sum of all ranks' `x` of n elements.
coconet::Executable compile_sum(const coconet::World& world, std::size_t n,
                                const coconet::Schedule& schedule) {
  coconet::Program program("sum", coconet::Mesh::over(world));
  const coconet::Dim dim = program.dim("n");
  const coconet::Value x = program.input("x", coconet::f32, {dim}, coconet::local);
  program.output("y", coconet::all_reduce(x, coconet::sum).named("total"));
  return coconet::compile(program, schedule, world, {{"n", static_cast<std::int64_t>(n)}});
}

void measure_size(const coconet::World& world, std::size_t n, bench::Rows& rows) {
  const std::vector<float> x = bench::make_gradient(n, world.rank());
  std::vector<bench::Contestant> contestants;
  std::vector<float> expected;
  const bench::Array in = bench::make_array(n);
  const bench::Array out = bench::make_array(n);
  contestants.push_back({.name = "MPI_Allreduce",
                         .begin = [&] { std::ranges::copy(x, in.get()); },
                         .step =
                             [&](int) {
                               MPI_Allreduce(in.get(), out.get(), static_cast<int>(n), MPI_FLOAT,
                                             MPI_SUM, MPI_COMM_WORLD);
                             }});
  bench::verify(contestants.back(), std::span(out.get(), n), 1, expected);

  std::vector<std::unique_ptr<coconet::Executable>> steps;
  const auto enter = [&](const std::string& name, const coconet::Schedule& schedule) {
    auto& step =
        *steps.emplace_back(std::make_unique<coconet::Executable>(compile_sum(world, n, schedule)));
    contestants.push_back({.name = name,
                           .begin =
                               [&world, &step, &x] {
                                 std::ranges::copy(x, step.data<float>("x").begin());
                                 world.barrier();
                               },
                           .step = [&step](int) { step.run(); }});
    bench::verify(contestants.back(), step.data<float>("y"), 2, expected);
  };
  enter("library", coconet::Schedule());
  for (const char* const algorithm : algorithms) {
    for (const char* const protocol : protocols) {
      const coconet::Knobs knobs{.algorithm = algorithm, .protocol = protocol};
      enter(std::string(algorithm) + " " + protocol,
            coconet::Schedule("sum").fuse("sum", "all_reduce", {"total"}, knobs));
    }
  }

  bench::measure(contestants);
  const double peer_ms = contestants.front().ms;
  for (std::size_t c = 1; c < contestants.size(); ++c)
    rows.add({.name = contestants[c].name, .n = n, .ms = contestants[c].ms, .peer_ms = peer_ms});
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  bench::Rows rows("algorithms", world.size(), world.rank() == 0, options.json);
  for (const int exponent :
       options.quick ? std::vector{8, 14, 20} : std::vector{4, 6, 8, 10, 12, 14, 16, 18, 20, 22})
    measure_size(world, std::size_t{1} << exponent, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
