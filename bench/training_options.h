// AdamW with what training asks for beside its formula, against the same kernel without: groups,
// and clipping by norm together with loss scaling.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "adam_update.h"
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
}

}  // namespace bench
