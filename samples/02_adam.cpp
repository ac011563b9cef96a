// One Adam step of data-parallel training, written out as a program and run under three schedules
// side by side. Run it with `mpirun -n 2 02_adam [PARAMETERS]`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "coconet/coconet.h"

using namespace coconet;

/// Adam (Kingma & Ba, 2015): `g` is this rank's gradient, `w` the parameters, `m` and `v` the
/// moments.
Program adam(const World& world) {
  Program p("adam", Mesh::over(world));
  const Dim n = p.dim("n");
  const Value g = p.input("g", f32, {n}, local);
  const Value w = p.state("w", f32, {n}, replicated);
  const Value m = p.state("m", f32, {n}, replicated), v = p.state("v", f32, {n}, replicated);
  const Value lr = p.scalar("lr"), t = p.scalar("t");

  const Value avg = all_reduce(g, mean).named("avg");
  const Value m1 = update(m, 0.9f * m + 0.1f * avg);
  const Value v1 = update(v, 0.999f * v + 0.001f * avg * avg);
  update(w, w - lr * (m1 / (1 - pow(0.9f, t))) / (sqrt(v1 / (1 - pow(0.999f, t))) + 1e-8f));
  return p;
}

/// Milliseconds of one step on this rank.
double time_step(Executable& step, int t) {
  const auto start = std::chrono::steady_clock::now();
  step.run({{"lr", 1e-3}, {"t", t}});
  step.synchronize();  // a GPU may still be at it
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// "avg + w", the kernels and library collectives of a step in execution order.
std::string kernels(Executable& step) {
  std::string names;
  for (const KernelReport& kernel : step.report().kernels)
    names += (names.empty() ? "" : " + ") + kernel.name;
  return names;
}

int main(int argc, char** argv) {
  const World world = World::mpi();
  const long n = argc > 1 ? std::atol(argv[1]) : 1L << 22;
  if (n < 1) {
    if (world.rank() == 0) std::fprintf(stderr, "usage: 02_adam [NUMBER OF PARAMETERS]\n");
    return 1;
  }
  const std::vector<std::string> schedules = {"unfused", "sliced", "fused"};

  const auto count = static_cast<std::size_t>(n);
  std::vector<float> gradient(count);
  float next = 0.01f * static_cast<float>(world.rank() + 1);
  for (float& g : gradient) g = next = -0.999f * next;

  std::vector<Executable> steps;
  for (const std::string& schedule : schedules) {
    Executable& step = steps.emplace_back(
        compile(adam(world), Schedule::load("adam-" + schedule + ".json"), world, {{"n", n}}));
    step.write("g", gradient);
    step.write("w", std::vector<float>(count, 0.5f));
    step.data<float>("m");  // the library's own memory; the moments start as zeros
    step.data<float>("v");
  }

  // The schedules take turns, so that a slow moment of the machine hits all of them.
  constexpr int warm_up = 3, samples = 15;
  std::vector<std::vector<double>> times(steps.size());
  for (int t = 1; t <= warm_up + samples; ++t) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      world.barrier();
      const double ms = time_step(steps[s], t);
      if (t > warm_up) times[s].push_back(ms);
    }
  }

  std::vector<float> expected(count), w(count);
  steps[0].read("w", expected);
  double unfused_ms = 0;
  if (world.rank() == 0) std::printf("Adam, %ld parameters, %d ranks\n", n, world.size());
  if (world.rank() == 0)
    std::printf("%-8s %10s %8s %12s  %s\n", "schedule", "ms", "speed", "difference", "kernels");
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::ranges::nth_element(times[s], times[s].begin() + samples / 2);
    const double ms = times[s][samples / 2];
    if (s == 0) unfused_ms = ms;
    float difference = 0;
    steps[s].read("w", w);
    for (std::size_t i = 0; i < w.size(); ++i)
      difference = std::max(difference, std::abs(w[i] - expected[i]));
    const std::string names = kernels(steps[s]);  // collective: every rank must ask
    if (world.rank() == 0) {
      std::printf("%-8s %10.4f %7.2fx %12.1e  %s\n", schedules[s].c_str(), ms, unfused_ms / ms,
                  static_cast<double>(difference), names.c_str());
    }
  }
}
