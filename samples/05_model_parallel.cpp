// The end of a transformer's MLP, divided over the ranks as Megatron-LM does: each has some columns
// of the activations `x` and the same rows of the weights `w`. Run it with `mpirun -n 2
// 05_model_parallel [BATCH SEQUENCE HIDDEN]`.
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

/// out = dropout(x w + b) + r
Program mlp_block(const World& world) {
  Program p("mlp_block", Mesh::over(world));
  const Dim batch = p.dim("B"), sequence = p.dim("S"), hidden = p.dim("H"), inner = p.dim("F");
  const Value x = p.input("x", f32, {batch, sequence, inner}, sliced(2));
  const Value w = p.input("w", f32, {inner, hidden}, sliced(0));
  const Value b = p.input("b", f32, {hidden}, replicated);
  const Value r = p.input("r", f32, {batch, sequence, hidden}, replicated);
  const Value t = p.scalar("t");

  const Value layer =
      matmul(x, w).named("layer");  // local: each rank has the products of its columns
  const Value total = all_reduce(layer, sum).named("sum");
  p.output("out", (dropout(total + b, dropped, /*seed=*/1, t) + r).named("out"));
  return p;
}

/// Numbers between -1 and 1 that f32 holds, those of `tensor` at `index`.
double element(char tensor, long index) {
  const auto mixed =
      (static_cast<unsigned long>(index) + 1) * static_cast<unsigned long>(tensor) * 2654435761UL;
  return static_cast<double>(mixed % 2047) / 1024 - 1;
}

/// Gives `step` this rank's block of x and w, which are divided along F, and the whole of b and r.
void fill(Executable& step, const World& world, long rows, long hidden, long inner) {
  const long block = block_length(inner, world.size());
  const long first = std::min(world.rank() * block, inner), last = std::min(first + block, inner);
  std::vector<float> x, w, b, r;
  for (long row = 0; row < rows; ++row) {
    for (long k = first; k < last; ++k)
      x.push_back(static_cast<float>(element('x', row * inner + k)));
  }
  for (long i = first * hidden; i < last * hidden; ++i)
    w.push_back(static_cast<float>(element('w', i)));
  for (long i = 0; i < hidden; ++i) b.push_back(static_cast<float>(element('b', i)));
  for (long i = 0; i < rows * hidden; ++i) r.push_back(static_cast<float>(element('r', i)));
  step.write("x", x), step.write("w", w), step.write("b", b), step.write("r", r);
}

/// The largest error of `rows` rows of `out`, which has `count`, against a plain loop. What dropout
/// leaves is either all residual, or the rest grew by 1 / (1 - dropped).
double error_of(const std::vector<float>& out, long count, long hidden, long inner, long rows) {
  double worst = 0;
  for (long row = 0; row < count; row += std::max(count / rows, 1L)) {
    for (long column = 0; column < hidden; ++column) {
      double product = 0;
      for (long k = 0; k < inner; ++k) {
        product += element('x', row * inner + k) * element('w', k * hidden + column);
      }
      const long at = row * hidden + column;
      const double residual = element('r', at);
      const double kept = (product + element('b', column)) / (1 - dropped);
      const double got = static_cast<double>(out[static_cast<std::size_t>(at)]) - residual;
      worst = std::max(worst, std::min(std::abs(got), std::abs(got - kept)));
    }
  }
  return worst;
}

int main(int argc, char** argv) try {
  const World world = World::mpi();
  const auto argument = [&](int i, long otherwise) {
    return argc > i ? std::atol(argv[i]) : otherwise;
  };
  const long batch = argument(1, 4), sequence = argument(2, 128), hidden = argument(3, 256);
  const long inner = 4 * hidden, rows = batch * sequence;
  if (batch < 1 || sequence < 1 || hidden < 1) {
    if (world.rank() == 0)
      std::fprintf(stderr, "usage: 05_model_parallel [BATCH SEQUENCE HIDDEN]\n");
    return EXIT_FAILURE;
  }

  const std::vector<std::string> schedules = {"unfused", "sliced", "fused", "overlapped"};
  std::vector<Executable> steps;
  for (const std::string& schedule : schedules) {
    Executable& step = steps.emplace_back(
        compile(mlp_block(world), Schedule::load("mlp_block-" + schedule + ".json"), world,
                {{"B", batch}, {"S", sequence}, {"H", hidden}, {"F", inner}}));
    fill(step, world, rows, hidden, inner);
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
      const auto end = std::chrono::steady_clock::now();
      if (t > warm_up)
        times[s].push_back(std::chrono::duration<double, std::milli>(end - start).count());
    }
  }

  if (world.rank() == 0) {
    std::printf("[%ld, %ld, %ld] x [%ld, %ld], %d ranks\n", batch, sequence, inner, inner, hidden,
                world.size());
    std::printf("%-10s %9s %7s %9s  %s\n", "schedule", "ms", "speed", "error",
                "steps, with their ms");
  }
  double unfused_ms = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::ranges::nth_element(times[s], times[s].begin() + samples / 2);
    const double ms = times[s][samples / 2];
    if (s == 0) unfused_ms = ms;
    std::vector<float> out(static_cast<std::size_t>(rows * hidden));
    steps[s].read("out", out);
    const Report report = steps[s].report();  // collective: every rank must ask
    if (world.rank() != 0) continue;
    std::printf("%-10s %9.4f %6.2fx %9.1e ", schedules[s].c_str(), ms, unfused_ms / ms,
                error_of(out, rows, hidden, inner, 3));
    for (const KernelReport& kernel : report.kernels)
      std::printf(" %s %.3f", kernel.name.c_str(), kernel.ms);
    std::printf("\n");
  }
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "05_model_parallel: %s\n", error.what());
  return EXIT_FAILURE;
}
