// Times one data-parallel Adam step on two ranks: this library's schedules against MPI_Allreduce
// with a vectorized loop (the peer) and against a fused loop written by hand (the floor). All of
// them must compute the same weights.
#include <mpi.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/coconet.h"
#include "floor.h"
#include "peers.h"
#include "rows.h"
#include "schedule_of.h"
#include "timing.h"
#include "verify.h"

namespace {

constexpr std::string_view schedules[] = {"fused", "automatic", "sliced", "unfused"};

/// This library's step under one schedule, or what it chooses itself, on `tensors`.
coconet::Executable compile(const coconet::World& world, bench::Tensors& tensors, std::size_t n,
                            std::string_view schedule) {
  auto step = coconet::compile(coconet::programs::adam(coconet::Mesh::over(world)),
                               bench::schedule_of("adam", std::string(schedule)), world,
                               {{"n", static_cast<std::int64_t>(n)}});
  step.bind("g", tensors.g);
  step.bind("w", tensors.w);
  step.bind("m", std::span(tensors.m.get(), step.count("m")));
  step.bind("v", std::span(tensors.v.get(), step.count("v")));
  return step;
}

void measure_size(const coconet::World& world, std::size_t n, bench::Peers& peers,
                  bench::Rows& rows) {
  const std::vector<float> g = bench::make_gradient(n, world.rank());
  const std::vector<float> w(n, bench::first_weight);
  std::vector<float> after_one, after_three;
  std::vector<bench::Contestant> contestants;

  // In place the gradient grows from step to step, so that only the first step is the others'.
  peers.enter(contestants, "adam", n, [&](const auto& peer, const auto& results) {
    bench::verify(peer, results, 3, after_three);
    bench::verify(peer, results, 1, after_one);
  });
  peers.enter(
      contestants, std::string("adam") + bench::in_place, n,
      [&](const auto& peer, const auto& results) { bench::verify(peer, results, 1, after_one); });

  bench::Tensors tensors(world, n);
  const auto enter = [&](std::string_view name, std::function<void(int)> step) {
    contestants.push_back({.name = std::string(name),
                           .begin = [&] { tensors.reset(world, g, w); },
                           .step = std::move(step)});
    bench::verify(contestants.back(), tensors.w.as<float>(), 3, after_three);
  };
  bench::Floor floor(world, tensors, n, false);
  bench::Floor floor_streaming(world, tensors, n, true);
  enter("floor", [&](int t) { floor.step(t); });
  enter("floor, streaming stores", [&](int t) { floor_streaming.step(t); });
  std::vector<std::unique_ptr<coconet::Executable>> ours;
  for (const std::string_view schedule : schedules) {
    auto& step = *ours.emplace_back(
        std::make_unique<coconet::Executable>(compile(world, tensors, n, schedule)));
    enter(schedule, [&step](int t) { step.run({{"lr", bench::learning_rate}, {"t", t}}); });
  }

  bench::measure(contestants);

  for (const std::string_view schedule : schedules) {
    bench::Row row{.name = std::string(schedule),
                   .n = n,
                   .ms = bench::fastest(contestants, {schedule}),
                   .floor_ms = bench::fastest(contestants, {"floor", "floor, streaming stores"})};
    bench::Peers::put_fastest(contestants, row);
    rows.add(std::move(row));
  }
  peers.clear();
}

void run(const bench::Options& options) {
  const coconet::World world = coconet::World::mpi();
  if (world.size() != 2)
    throw std::invalid_argument("start the benchmark with mpirun -n 2: it compares two ranks");
  bench::Rows rows("adam", world.size(), world.rank() == 0, options.json);
  bench::Peers peers(options.other_mpis, world.rank(), world.size());
  for (const int exponent :
       options.quick ? std::vector{12, 18, 24} : std::vector{10, 12, 14, 16, 18, 20, 22, 24})
    measure_size(world, std::size_t{1} << exponent, peers, rows);
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
