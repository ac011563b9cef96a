// What training asks of optimizers beside their formulas: clipping, loss scaling and groups equal
// the reference in one kernel; steps that overflow are skipped; LAMB's ratios are those of layers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bert.h"
#include "elements.h"
#include "ir/access.h"
#include "ir/lists.h"
#include "jit/bind/lists.h"
#include "jit/comm/require_on_rank.h"
#include "jit/conformance/conformance_batch.h"
#include "jit/conformance/shipped_conformance.h"
#include "sample.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;
using programs::Storage;

namespace {

constexpr programs::TrainingOptions everything = {
    .max_norm = 1, .max_value = 0.5, .gradient_norm = true, .loss_scaling = true, .groups = true};

/// Of `program`, where it tells buffers apart those of each list.
std::vector<Checked> cases_of(const Program& program, const std::vector<List>& all) {
  std::vector<Checked> cases = test::cases_of(all, 2);
  if (ir::listed_dims(*ir::graph_of(program)).empty()) {
    for (Checked& checked : cases) checked.options.lists.clear();
  }
  return cases;
}

/// Stochastic gradient descent of `n` elements of f32, fused.
Executable compile_sgd(const World& world, const programs::SgdOptions& options, std::int64_t n) {
  return compile(programs::sgd(Mesh::over(world), f32, options), Schedule::load("sgd-fused.json"),
                 world, {{"n", n}});
}

/// Every optimizer that is asked for `training`, against the reference; under `fused` it is one
/// kernel.
void require_one_kernel_that_conforms(const programs::TrainingOptions& training) {
  ConformanceBatch batch;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with == nullptr) continue;
    for (const Storage storage : {Storage::whole, Storage::scattered}) {
      for (const programs::Precision& precision : shipped.precisions) {
        for (const std::string_view schedule : shipped.schedules) {
          for (const int ranks : {1, 2, 3, 4, 8}) {
            const Program program =
                shipped.with(shipped.mesh(ranks), precision, training, storage, {});
            const Schedule steps = shipped_schedule(shipped, schedule);
            if (schedule == "fused" && ranks == 2) {
              const Program last = steps.apply(program).back();
              CHECK(sched::lower(*ir::graph_of(last)).steps.size() == 1);
            }
            batch.add(program, steps,
                      cases_of(program, {{1, 4097, 2, 8191, 1, 300}, {5, 1, 64, 3}}));
          }
        }
      }
    }
  }
  batch.require();
}

}  // namespace

TEST_CASE("every optimizer clips, scales and has groups in one kernel") {
  require_one_kernel_that_conforms(everything);
}

TEST_CASE("every optimizer takes sums of gradients in one kernel, with all else or alone") {
  require_one_kernel_that_conforms({.accumulation = true});
  programs::TrainingOptions of_sums = everything;
  of_sums.accumulation = true;
  require_one_kernel_that_conforms(of_sums);
}

TEST_CASE("the norm of the gradient is an output, of what is clipped and what is not") {
  const std::vector<float> gradient = {3, -4, 12, 0, 84};
  for (const double max_norm : {0.0, 1.0}) {
    for (const char* schedule : {"sgd-fused.json", "sgd-sliced.json", "sgd-unfused.json"}) {
      const programs::SgdOptions options = {.max_norm = max_norm, .gradient_norm = true};
      World::local(2, [&](World& world) {
        Executable step = compile(programs::sgd(Mesh::over(world), f32, options),
                                  Schedule::load(schedule), world, {{"n", 5}});
        step.write("g", gradient);
        step.run({{"lr", 1}});
        REQUIRE_ON_RANK(step.scalar_of<float>("gradient_norm") == 85);
        const double of_unclipped = max_norm == 0 ? 1 : 1 / (85 + 1e-6);
        REQUIRE_ON_RANK(std::abs(elements_of(step, "w").back() + 84 * of_unclipped) <
                        1e-5 * of_unclipped);
      });
    }
  }
}

TEST_CASE("a gradient that is not finite on one rank skips the step on all") {
  constexpr int ranks = 4;
  constexpr std::size_t n = 1001;
  const programs::AdamWOptions options = {.loss_scaling = true};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      Executable step =
          compile(programs::adamw(Mesh::over(world), f32, options),
                  Schedule::load("adamw-fused.json"), world, {{"n", static_cast<std::int64_t>(n)}});
      const auto gradient = step.data<float>("g");
      const auto give = [&](float value) { std::ranges::fill(gradient, value); };
      std::ranges::fill(step.data<float>("w"), 1.0F);
      give(65536 * 0.5F);
      step.run({{"lr", 1e-3}, {"t", 1}});
      REQUIRE_ON_RANK(step.scalar_of<float>("scale") == 65536);
      REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 1);
      const auto w = elements_of(step, "w"), m = elements_of(step, "m"), v = elements_of(step, "v");
      REQUIRE_ON_RANK(w.front() < 1 && m.front() == 0.05F);
      world.barrier();

      if (world.rank() == 2) gradient[777] = bad;
      step.run({{"lr", 1e-3}, {"t", 2}});
      const auto is_same = [&](const std::vector<float>& before, std::string_view name) {
        const auto after = elements_of(step, name);
        return std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0;
      };
      REQUIRE_ON_RANK((is_same(w, "w") && is_same(m, "m") && is_same(v, "v")));
      REQUIRE_ON_RANK(step.scalar_of<float>("scale") == 32768);
      REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 0);
      REQUIRE_ON_RANK(step.scalar_of<float>("skipped") == 1);
      world.barrier();

      // The third step is the second that is taken, of a smaller loss.
      give(32768 * 0.5F);
      step.run({{"lr", 1e-3}, {"t", 3}});
      const float w2 = w.front() * (1 - 1e-5F) - 1e-3F;  // equal gradients: Adam's step is lr
      REQUIRE_ON_RANK(std::abs(elements_of(step, "w").front() - w2) < 1e-6F);
      REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 1);
      world.barrier();
    }));
  }
}

TEST_CASE("the scale doubles after 2000 steps, as GradScaler's") {
  World::local(2, [](World& world) {
    Executable step = compile_sgd(world, {.loss_scaling = true}, 8);
    std::ranges::fill(step.data<float>("g"), 1.0F);
    for (int t = 1; t < 2000; ++t) step.run({{"lr", 0}});
    REQUIRE_ON_RANK(step.scalar_of<float>("scale") == 65536);
    REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 1999);
    step.run({{"lr", 0}});
    REQUIRE_ON_RANK(step.scalar_of<float>("scale") == 131072);
    REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 0);
  });
}

TEST_CASE("the scale grows and backs off by the constants that are asked for") {
  World::local(2, [](World& world) {
    Executable step = compile_sgd(world,
                                  {.loss_scaling = true,
                                   .loss_scale = {.init_scale = 48,
                                                  .growth_factor = 4,
                                                  .backoff_factor = 0.25,
                                                  .growth_interval = 3}},
                                  8);
    const auto is_after = [&](float gradient, float scale, float growth) {
      step.write("g", std::vector<float>(8, gradient));
      step.run({{"lr", 0}});
      return step.scalar_of<float>("scale") == scale && step.scalar_of<float>("growth") == growth;
    };
    const float bad = std::numeric_limits<float>::infinity();
    REQUIRE_ON_RANK((is_after(1, 48, 1) && is_after(1, 48, 2) && is_after(1, 192, 0)));
    REQUIRE_ON_RANK((is_after(1, 192, 1) && is_after(bad, 48, 0)));  // the count begins anew
    REQUIRE_ON_RANK((is_after(1, 48, 1) && is_after(1, 48, 2) && is_after(1, 192, 0)));
  });
}

TEST_CASE("by default the scale doubles and halves, and never becomes infinite") {
  World::local(2, [](World& world) {
    Executable step =
        compile_sgd(world, {.loss_scaling = true, .loss_scale = {.growth_interval = 3}}, 8);
    const auto run = [&](float gradient) {
      step.write("g", std::vector<float>(8, gradient));
      step.run({{"lr", 0}});
      return step.scalar_of<float>("scale");
    };
    REQUIRE_ON_RANK((run(1) == 65536 && run(1) == 65536 && run(1) == 131072));
    REQUIRE_ON_RANK(run(std::nanf("")) == 65536);
    step.write("scale", std::vector<float>{0x1p126F});
    REQUIRE_ON_RANK((run(1) == 0x1p126F && run(1) == 0x1p126F && run(1) == 0x1p127F));
    REQUIRE_ON_RANK((run(1) == 0x1p127F && run(1) == 0x1p127F && run(1) == 0x1p127F));
    REQUIRE_ON_RANK(step.scalar_of<float>("growth") == 0);  // as GradScaler
    REQUIRE_ON_RANK(run(std::nanf("")) == 0x1p126F);
  });
}

TEST_CASE("gradients are clipped as torch.nn.utils clips them") {
  World::local(2, [](World& world) {
    Executable step = compile_sgd(world, {.max_norm = 2, .max_value = 3}, 4);
    const std::vector<float> gradient = {1, -5, 2, 4};
    step.write("g", gradient);
    step.run({{"lr", 1}});
    const std::vector<float> limited = {1, -3, 2, 3};
    const float factor = 2 / (std::sqrt(23.0F) + 1e-6F);
    const auto w = elements_of(step, "w");
    for (std::size_t i = 0; i < w.size(); ++i)
      REQUIRE_ON_RANK(std::abs(w[i] + limited[i] * factor) < 1e-6F);
  });
  World::local(1, [](World& world) {  // below the norm nothing changes
    Executable step = compile_sgd(world, {.max_norm = 100}, 2);
    step.write("g", std::vector<float>{3, 4});
    step.run({{"lr", 1}});
    REQUIRE_ON_RANK(elements_of(step, "w") == std::vector<float>{-3, -4});
  });
}

TEST_CASE("groups have a learning rate and a weight decay for each buffer") {
  World::local(3, [](World& world) {
    const programs::SgdOptions options = {.weight_decay = 7, .groups = true};
    Executable step = compile(programs::sgd(Mesh::over(world), f32, options, Storage::scattered),
                              Schedule::load("sgd-fused.json"), world, {}, {{"n", {2, 1, 3}}});
    step.write("lr_scale", std::vector<float>{1, 0.5, 2});
    step.write("weight_decay", std::vector<float>{0, 1, 0.5});
    step.write("w", std::vector<float>(6, 1));
    step.write("g", std::vector<float>(6, 1));
    step.run({{"lr", 0.25}});
    REQUIRE_ON_RANK(elements_of(step, "w") ==
                    std::vector<float>{0.75, 0.75, 0.75, 0.25, 0.25, 0.25});
  });
}

TEST_CASE("LAMB's ratios are those of BERT's layers, wherever slices cut them") {
  bert::Config config;
  if (!runs_all()) {
    config.layers = 2;
    config.vocabulary = 3052;
    config.hidden = 192;
    config.intermediate = 768;
  }
  List list;
  for (const bert::Parameter& parameter : bert::parameters(config))
    list.push_back(parameter.count());
  CHECK(list.size() == (runs_all() ? 199 : 39));
  const auto n = static_cast<std::size_t>(sum_of(list));
  const auto weight = [](std::size_t i) {
    return 0.02F * static_cast<float>(static_cast<int>(i * 2654435761U >> 16 & 1023) - 511) / 512;
  };
  const auto gradient = [](std::size_t i, int rank) {
    return 1e-3F * static_cast<float>(static_cast<int>((i + 77 * rank) * 40503U >> 8 & 255) - 127);
  };
  constexpr double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 0.01;
  for (const int ranks : {1, 2, 3}) {
    if (one_in() > 1 && seed() % 3 + 1 != static_cast<std::uint64_t>(ranks)) continue;
    // Two steps by the paper's formula, layer by layer.
    std::vector<double> w(n), m(n), v(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<double>(weight(i));
    for (int t = 1; t <= 2; ++t) {
      const double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
      std::size_t begin = 0;
      for (const std::int64_t length : list) {
        const std::size_t end = begin + static_cast<std::size_t>(length);
        std::vector<double> u(end - begin);
        double w_squares = 0, u_squares = 0;
        for (std::size_t i = begin; i < end; ++i) {
          double g = 0;
          for (int rank = 0; rank < ranks; ++rank) g += static_cast<double>(gradient(i, rank));
          g /= ranks;
          m[i] = beta1 * m[i] + (1 - beta1) * g;
          v[i] = beta2 * v[i] + (1 - beta2) * g * g;
          u[i - begin] = m[i] / correction1 / (std::sqrt(v[i] / correction2) + eps) + decay * w[i];
          w_squares += w[i] * w[i];
          u_squares += u[i - begin] * u[i - begin];
        }
        const double ratio = w_squares > 0 && u_squares > 0 ? std::sqrt(w_squares / u_squares) : 1;
        for (std::size_t i = begin; i < end; ++i) w[i] -= lr * ratio * u[i - begin];
        begin = end;
      }
    }
    REQUIRE_NOTHROW(World::local(ranks, [&](World& world) {
      Executable step = compile(programs::lamb(Mesh::over(world), f32, {}, Storage::scattered),
                                Schedule::load("lamb-fused.json"), world, {}, {{"n", list}});
      std::size_t at = 0;
      for (std::size_t buffer = 0; buffer < list.size(); ++buffer) {
        const auto g = step.data<float>("g", buffer), own = step.data<float>("w", buffer);
        for (std::size_t i = 0; i < g.size(); ++i, ++at) {
          g[i] = gradient(at, world.rank());
          own[i] = weight(at);
        }
      }
      world.barrier();
      for (int t = 1; t <= 2; ++t) step.run({{"lr", lr}, {"t", t}});
      double largest = 0;
      at = 0;
      for (std::size_t buffer = 0; buffer < list.size(); ++buffer) {
        for (const float one : step.data<float>("w", buffer)) {
          const double error = std::abs(static_cast<double>(one) - w[at++]);
          largest = std::max(largest, error / 0.02);  // of the scale of weights
        }
      }
      REQUIRE_ON_RANK(largest < 1e-5);
    }));
  }
}
