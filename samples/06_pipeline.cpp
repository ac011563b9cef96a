// The hand-off between the two stages of a pipeline, each divided over half of the ranks: a stage
// adds up its partial results, with bias, dropout and residual, and sends them on. Run it with
// `mpirun -n 4 06_pipeline [BATCH SEQUENCE HIDDEN]`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "coconet/coconet.h"

using namespace coconet;

constexpr double dropped = 0.1;

/// out = what the stage before has of dropout(sum of its ranks' x + b) + r; zeros on the first
/// stage.
Program pipeline_block(const Mesh& mesh) {
  Program p("pipeline_block", mesh);
  const Dim batch = p.dim("B"), sequence = p.dim("S"), hidden = p.dim("H");
  const Layout per_rank = Layout::on({{"pp", local}, {"tp", local}});
  const Layout per_stage = Layout::on({{"pp", local}});
  const Value x = p.input("x", f32, {batch, sequence, hidden}, per_rank);
  const Value b = p.input("b", f32, {hidden}, per_stage);
  const Value r = p.input("r", f32, {batch, sequence, hidden}, per_stage);
  const Value t = p.scalar("t");

  const Value total = all_reduce(x, sum, "tp").named("sum");
  const Value block = (dropout(total + b, dropped, /*seed=*/1, t) + r).named("block");
  p.output("out", send(block, 1, "pp").named("out"));
  return p;
}

/// Numbers between -1 and 1 that f32 holds, those of `tensor` at `index` on rank or stage `owner`.
double element(char tensor, std::size_t index, int owner) {
  const auto mixed = (index + 1) *
                     (static_cast<std::size_t>(tensor) + 256 * static_cast<std::size_t>(owner)) *
                     2654435761;
  return static_cast<double>(mixed % 2047) / 1024 - 1;
}

/// The largest error of `out` on the second stage against a plain loop. What dropout leaves is
/// either all residual, or the rest grew by 1 / (1 - dropped).
double error_of(const std::vector<float>& out, std::size_t hidden, int ranks_of_stage) {
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double total = element('b', i % hidden, 0);
    for (int rank = 0; rank < ranks_of_stage; ++rank) total += element('x', i, rank);
    const double got = static_cast<double>(out[i]) - element('r', i, 0);
    worst = std::max(worst, std::min(std::abs(got), std::abs(got - total / (1 - dropped))));
  }
  return worst;
}

int main(int argc, char** argv) try {
  World world = World::mpi();
  const auto argument = [&](int i, long otherwise) {
    return argc > i ? std::atol(argv[i]) : otherwise;
  };
  const long batch = argument(1, 8), sequence = argument(2, 512), hidden = argument(3, 512);
  if (batch < 1 || sequence < 1 || hidden < 1 || world.size() % 2 != 0) {
    if (world.rank() == 0)
      std::fprintf(stderr, "usage: mpirun -n EVEN_NUMBER 06_pipeline [BATCH SEQUENCE HIDDEN]\n");
    return EXIT_FAILURE;
  }
  const Mesh mesh({{"pp", 2}, {"tp", world.size() / 2}});
  const int stage = mesh.coordinate(world.rank(), 0);

  const std::vector<std::string> schedules = {"unfused", "sliced", "fused", "overlapped"};
  std::vector<Executable> steps;
  for (const std::string& schedule : schedules) {
    Executable& step = steps.emplace_back(
        compile(pipeline_block(mesh), Schedule::load("pipeline_block-" + schedule + ".json"), world,
                {{"B", batch}, {"S", sequence}, {"H", hidden}}));
    const auto fill = [&](char tensor, int owner) {
      const auto data = step.data<float>(std::string(1, tensor));
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>(element(tensor, i, owner));
    };
    fill('x', world.rank());
    fill('b', stage);
    fill('r', stage);
  }

  // The schedules take turns, so that a slow moment of the machine hits all of them.
  constexpr int warm_up = 3, samples = 15;
  std::vector<std::vector<double>> times(steps.size());
  for (int t = 1; t <= warm_up + samples; ++t) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      steps[s].run({{"t", t}});
      steps[s].synchronize();
      world.barrier();  // a step is over when the last stage has it
      const auto end = std::chrono::steady_clock::now();
      if (t > warm_up)
        times[s].push_back(std::chrono::duration<double, std::milli>(end - start).count());
    }
  }

  // The last rank, which is on the second stage, says what it received.
  const bool last = world.rank() == world.size() - 1;
  if (last) {
    std::printf("[%ld, %ld, %ld] from stage 0 to stage 1, %d ranks each\n", batch, sequence, hidden,
                world.size() / 2);
    std::printf("%-10s %9s %7s %9s  %s\n", "schedule", "ms", "speed", "error", "steps");
  }
  double unfused_ms = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::ranges::nth_element(times[s], times[s].begin() + samples / 2);
    const double ms = times[s][samples / 2];
    if (s == 0) unfused_ms = ms;
    std::vector<float> out(steps[s].count("out"));
    steps[s].read("out", out);
    const Report report = steps[s].report();  // collective: every rank must ask
    if (!last) continue;
    std::string names;
    for (const KernelReport& kernel : report.kernels)
      names += (names.empty() ? "" : " + ") + kernel.name;
    std::printf("%-10s %9.4f %6.2fx %9.1e  %s\n", schedules[s].c_str(), ms, unfused_ms / ms,
                error_of(out, static_cast<std::size_t>(hidden), world.size() / 2), names.c_str());
  }
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "06_pipeline: %s\n", error.what());
  return EXIT_FAILURE;
}
