// AdamW with what training asks for beside its formula, against the same kernel without: groups,
// and clipping by norm together with loss scaling; and with these in the memory of an application
// that names no schedule, against the fused kernel.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "adam_update.h"
#include "arrays.h"
#include "coconet/coconet.h"
#include "optimizer_step.h"
#include "rows.h"
#include "timing.h"
#include "verify.h"

namespace bench {

/// A row of AdamW with `options`, and without as the floor. The options are given such numbers that
/// both compute the same weights.
inline void measure_options(const coconet::World& world, const std::string& name,
                            const coconet::programs::TrainingOptions& options,
                            coconet::programs::Storage storage,
                            const std::vector<std::int64_t>& lengths, Rows& rows) {
  Optimizer plain{"adamw", {"m", "v"}}, asked = plain;
  if (options.loss_scaling) asked.states.insert(asked.states.end(), {"scale", "growth", "skipped"});
  const auto make = [&](const Optimizer& optimizer, const coconet::programs::TrainingOptions& its) {
    const coconet::Program program = coconet::programs::find("adamw")->with(
        coconet::Mesh::over(world), coconet::f32, its, storage, {});
    return OptimizerStep<float>(world, optimizer, program, "fused", lengths, learning_rate);
  };
  OptimizerStep<float> without = make(plain, {});
  OptimizerStep<float> with = make(asked, options);
  // One memory: where pages lie can make more between equal kernels than the options do.
  with.executable().share_states(without.executable());
  std::vector<coconet::Buffer> gradients;
  for (const std::int64_t length : lengths)
    gradients.push_back(world.allocate(coconet::f32, static_cast<std::size_t>(length)));
  for (OptimizerStep<float>* const each : {&without, &with})
    each->executable().bind("g", std::span<const coconet::Buffer>(gradients));
  const std::vector<float> ones(lengths.size(), 1), decays(lengths.size(), 0.01f);
  if (options.groups) {
    with.executable().write("lr_scale", ones);
    with.executable().write("weight_decay", decays);
  }

  const std::size_t n = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  const std::vector<float> g = make_gradient(n, world.rank()), w(n, first_weight);
  std::vector<float> scaled = g;
  for (float& element : scaled) element *= options.loss_scaling ? 65536.0f : 1.0f;
  std::vector<Contestant> contestants = {
      {.name = "without",
       .begin = [&] { without.begin(g, w); },
       .step = [&](int t) { without.step(t); }},
      {.name = "with",
       .begin = [&] { with.begin(scaled, w); },
       .step = [&](int t) { with.step(t); }},
  };
  std::vector<float> expected, weights(n);
  for (const Contestant& contestant : contestants) {
    Contestant reading = contestant;
    reading.step = [&](int t) {
      contestant.step(t);
      world.barrier();
      without.executable().read("w", weights);
    };
    verify(reading, weights, 3, expected);
  }
  measure(contestants);
  rows.add({.name = "adamw, " + name,
            .n = n,
            .ms = fastest(contestants, {"with"}),
            .floor_ms = fastest(contestants, {"without"})});
}

/// A row of AdamW with groups and clipping by norm over `n` elements in 16 buffers that lie in the
/// application's own memory: as `compile` schedules it when it is told nothing, and as the fused
/// schedule says as the floor.
inline void measure_client(const coconet::World& world, std::int64_t n, Rows& rows) {
  constexpr std::size_t buffers = 16;
  const std::vector<std::int64_t> lengths(buffers, n / buffers);
  const coconet::Program program = coconet::programs::find("adamw")->with(
      coconet::Mesh::over(world), coconet::f32, {.max_norm = 1e9, .groups = true},
      coconet::programs::Storage::scattered, {});
  const Optimizer optimizer{"adamw", {"m", "v"}};
  OptimizerStep<float> fused(world, optimizer, program, "fused", lengths, learning_rate);
  OptimizerStep<float> automatic(world, optimizer, program, "automatic", lengths, learning_rate);
  const auto count = static_cast<std::size_t>(n);
  const Array gradient = make_array(count), weights = make_array(count);
  const auto parts = [&](const Array& whole) {
    std::vector<std::span<float>> all;
    for (std::size_t i = 0; i < buffers; ++i)
      all.emplace_back(whole.get() + i * (count / buffers), count / buffers);
    return all;
  };
  std::vector<Contestant> contestants;
  const std::vector<float> g = make_gradient(count, world.rank()), w(count, first_weight);
  const std::vector<float> ones(buffers, 1), decays(buffers, 0.01f);
  std::vector<float> expected;
  for (OptimizerStep<float>* const step : {&fused, &automatic}) {
    step->executable().bind("g", parts(gradient));
    step->executable().bind("w", parts(weights));
    step->executable().write("lr_scale", ones);
    step->executable().write("weight_decay", decays);
    contestants.push_back({.name = step == &fused ? "fused" : "automatic",
                           .begin = [&, step] { step->begin(g, w); },
                           .step = [step](int t) { step->step(t); }});
    verify(contestants.back(), std::span<const float>(weights.get(), count), 3, expected);
  }
  measure(contestants);
  rows.add({.name = "adamw, groups and max_norm, own buffers, automatic",
            .n = count,
            .ms = fastest(contestants, {"automatic"}),
            .floor_ms = fastest(contestants, {"fused"})});
}

/// All of them.
inline void measure_all_options(const coconet::World& world, std::int64_t n, Rows& rows) {
  // A matrix and the four vectors that follow it, over and over.
  std::vector<std::int64_t> layers;
  for (std::int64_t begin = 0; begin < n; begin += std::int64_t{1024} * 1024)
    layers.insert(layers.end(), {std::int64_t{1020} * 1024, 1024, 1024, 1024, 1024});
  using coconet::programs::Storage;
  measure_options(world, "groups, against none", {.groups = true}, Storage::scattered, layers,
                  rows);
  // A norm that no gradient here has: the kernel computes it all the same, and multiplies by 1.
  measure_options(world, "max_norm and loss scaling, against none",
                  {.max_norm = 1e9, .loss_scaling = true}, Storage::whole, {n}, rows);
  for (const int exponent : {14, 20, 24}) measure_client(world, std::int64_t{1} << exponent, rows);
}

}  // namespace bench
