// What an optimizer keeps of its f32 weights beside a model in bf16. Remainders: the same weights
// as a copy, bit for bit. Nothing: weights rounded stochastically, the same under every schedule.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "elements.h"
#include "ir/access.h"
#include "ir/halves.h"
#include "jit/bind/lists.h"
#include "jit/comm/require_on_rank.h"
#include "jit/conformance/conformance_batch.h"
#include "jit/conformance/shipped_conformance.h"
#include "refusal.h"
#include "sample.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;
using programs::MasterWeights;
using programs::Storage;

namespace {

const List buffers = {1, 4097, 2, 1000, 64, 3};

/// States of a run, whole, by name, as the bits of their elements.
using States = std::map<std::string, std::vector<std::uint32_t>>;

template <class T>
std::vector<std::uint32_t> bits_of(Executable& step, const std::string& name) {
  std::vector<std::uint32_t> bits;
  for (const T element : whole_of<T>(step, name)) {
    if constexpr (sizeof(T) == 4) {
      bits.push_back(std::bit_cast<std::uint32_t>(element));
    } else {
      bits.push_back(std::bit_cast<std::uint16_t>(element));
    }
  }
  return bits;
}

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// Element `i` of a gradient, the same on all ranks, so that a power of two of them has one mean.
double gradient_at(std::int64_t i, int t) {
  return static_cast<double>((i * 7919 + t * 31) % 257 - 128) / 64;
}

/// An optimizer and how it runs.
struct Run {
  const programs::Shipped& shipped;
  MasterWeights kept = MasterWeights::copy;
  std::string_view schedule = "fused";
  Storage storage = Storage::whole;
  programs::TrainingOptions options = {};
  int ranks = 2;

  [[nodiscard]] Program program(const Mesh& mesh) const {
    return shipped.with(mesh, programs::mixed(bf16, kept), options, storage, {});
  }
};

/// Those that the program has.
std::vector<ScalarValue> scalars_of(const ir::Graph& graph, int t) {
  std::vector<ScalarValue> scalars = {{"lr", 0.003}};
  if (graph.find("t") >= 0) scalars.emplace_back("t", t);
  return scalars;
}

/// All states after `steps` steps.
States states_after(int steps, const Run& run) {
  States states;
  World::local(run.ranks, [&](World& world) {
    const Program program = run.program(Mesh::over(world));
    const std::int64_t n = sum_of(buffers);
    ParameterLists lists;
    if (run.storage == Storage::scattered) lists = {{"n", buffers}};
    Executable step =
        compile(program, shipped_schedule(run.shipped, run.schedule), world, {{"n", n}}, lists);
    const auto count = static_cast<std::size_t>(n);
    std::vector<BFloat16> w, g(count);
    std::vector<float> master;
    for (std::int64_t i = 0; i < n; ++i) {
      w.emplace_back(static_cast<double>(i % 511 - 255) / 128);
      master.push_back(static_cast<float>(w.back()));
    }
    step.write_whole("w", w);
    if (run.kept == MasterWeights::copy) step.write_whole("master", master);
    for (int t = 1; t <= steps; ++t) {
      for (std::size_t i = 0; i < count; ++i)
        g[i] = BFloat16(gradient_at(static_cast<std::int64_t>(i), t));
      step.write("g", g);
      world.barrier();
      step.run(scalars_of(*ir::graph_of(program), t));
    }
    States own;
    for (const ir::Node& node : ir::graph_of(program)->nodes()) {
      if (node.op != ir::Op::state) continue;
      own[node.name] = node.dtype == f32   ? bits_of<float>(step, node.name)
                       : node.dtype == i16 ? bits_of<std::int16_t>(step, node.name)
                                           : bits_of<BFloat16>(step, node.name);
    }
    if (world.rank() == 0) states = std::move(own);
  });
  return states;
}

std::vector<const programs::Shipped*> optimizers() {
  std::vector<const programs::Shipped*> found;
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (shipped.with != nullptr) found.push_back(&shipped);
  }
  return found;
}

/// Per-buffer moments, as of NovoGrad, are not whole tensors of n.
bool has_numbers_by_buffer(const Run& run) {
  return run.shipped.name == "novograd" && run.storage == Storage::scattered;
}

constexpr Storage storages[] = {Storage::whole, Storage::scattered};

}  // namespace

TEST_CASE("weights and remainders are the f32 weights that a copy has, bit for bit") {
  for (const programs::Shipped* shipped : optimizers()) {
    for (const Storage storage : storages) {
      for (const std::string_view schedule : shipped->schedules) {
        for (const int ranks : {1, 2, 3}) {
          const Run run{*shipped, MasterWeights::remainders, schedule, storage, {}, ranks};
          if (has_numbers_by_buffer(run) || !draw()) continue;
          INFO(shipped->name << " " << schedule << " on " << ranks);
          Run with_copy = run;
          with_copy.kept = MasterWeights::copy;
          const States copied = states_after(3, with_copy);
          const States kept = states_after(3, run);
          int different = 0;
          for (std::size_t i = 0; i < copied.at("master").size(); ++i) {
            const float upper = float_of(kept.at("w")[i] << 16);
            const auto lower =
                static_cast<std::int16_t>(static_cast<std::uint16_t>(kept.at("remainder")[i]));
            const double joined = ir::join_halves(upper, lower);
            different +=
                std::bit_cast<std::uint32_t>(static_cast<float>(joined)) != copied.at("master")[i];
          }
          CHECK(different == 0);
          for (const auto& [name, bits] : copied) {
            if (name != "master" && name != "w") CHECK(kept.at(name) == bits);
          }
        }
      }
    }
  }
}

TEST_CASE("stochastically rounded weights are the same under every schedule and number of ranks") {
  for (const programs::Shipped* shipped : optimizers()) {
    // Norms are sums, whose order hangs on the schedule.
    const bool has_norms =
        shipped->name == "lamb" || shipped->name == "lars" || shipped->name == "novograd";
    if (has_norms || !draw()) continue;
    const States first = states_after(3, {*shipped, MasterWeights::none, "unfused"});
    for (const Storage storage : storages) {
      for (const std::string_view schedule : shipped->schedules) {
        for (const int ranks : {1, 2, 4}) {
          INFO(shipped->name << " " << schedule << " on " << ranks);
          CHECK((states_after(3, {*shipped, MasterWeights::none, schedule, storage, {}, ranks}) ==
                 first));
        }
      }
    }
  }
}

TEST_CASE("with remainders or nothing beside the weights optimizers equal the reference") {
  ConformanceBatch batch;
  const auto add = [&](const Run& run) {
    Checked checked = check_of({{"n", sum_of(buffers)}}, 2);
    if (run.storage == Storage::scattered) checked.options.lists = {{"n", buffers}};
    batch.add(run.program(run.shipped.mesh(run.ranks)), shipped_schedule(run.shipped, run.schedule),
              {checked});
  };
  for (const programs::Shipped* shipped : optimizers()) {
    for (const MasterWeights kept : {MasterWeights::remainders, MasterWeights::none}) {
      for (const Storage storage : storages) {
        for (const std::string_view schedule : shipped->schedules) {
          for (const int ranks : {1, 2, 3}) add({*shipped, kept, schedule, storage, {}, ranks});
        }
      }
    }
  }
  batch.require();
}

TEST_CASE("with remainders or nothing beside the weights a step is one kernel") {
  for (const programs::Shipped* shipped : optimizers()) {
    for (const MasterWeights kept : {MasterWeights::remainders, MasterWeights::none}) {
      for (const Storage storage : storages) {
        const Run run{*shipped,
                      kept,
                      "fused",
                      storage,
                      {.max_norm = 1, .max_value = 0.5, .loss_scaling = true, .groups = true}};
        const Program last =
            shipped_schedule(*shipped, "fused").apply(run.program(shipped->mesh(2))).back();
        INFO(shipped->name);
        CHECK(sched::lower(*ir::graph_of(last)).steps.size() == 1);
      }
    }
  }
}

TEST_CASE("updates that bf16 rounds away move stochastically rounded weights on average") {
  constexpr std::size_t n = 65536;
  constexpr int steps = 16;
  constexpr double lr = 1e-4;  // an eightieth of the distance of two bf16 below 2
  for (const MasterWeights kept : {MasterWeights::none, MasterWeights::remainders}) {
    World::local(2, [&](World& world) {
      Executable step =
          compile(programs::sgd(Mesh::over(world), programs::mixed(bf16, kept, 42)),
                  Schedule::load("sgd-fused.json"), world, {{"n", static_cast<int>(n)}});
      step.write("w", std::vector<BFloat16>(n, BFloat16(1.5)));
      step.write("g", std::vector<BFloat16>(n, BFloat16(1)));
      for (int t = 1; t <= steps; ++t) {
        world.barrier();
        if (kept == MasterWeights::none) {
          step.run({{"lr", lr}, {"t", t}});
        } else {
          step.run({{"lr", lr}});
        }
      }
      const std::vector<BFloat16> w = whole_of<BFloat16>(step, "w");
      double mean = 0;
      for (const BFloat16 one : w) mean += static_cast<double>(static_cast<float>(one)) / n;
      const double exact = 1.5 - steps * lr;
      if (kept == MasterWeights::none) {
        REQUIRE_ON_RANK(std::abs(mean - exact) < 1e-4);  // several standard deviations
        REQUIRE_ON_RANK(static_cast<float>(w.front()) != static_cast<float>(w.back()) ||
                        mean != static_cast<double>(static_cast<float>(w.front())));
      } else {
        REQUIRE_ON_RANK(mean == 1.5);  // and the rest is in the remainders
      }
    });
  }
}

TEST_CASE("a skipped step leaves weights and remainders alone, bit for bit") {
  const programs::Shipped& shipped = *programs::find("adamw");
  for (const MasterWeights kept : {MasterWeights::remainders, MasterWeights::none}) {
    World::local(2, [&](World& world) {
      const programs::AdamWOptions options = {.loss_scaling = true};
      Executable step =
          compile(programs::adamw(Mesh::over(world), programs::mixed(bf16, kept), options),
                  shipped_schedule(shipped, "fused"), world, {{"n", 1001}});
      step.write("w", std::vector<BFloat16>(1001, BFloat16(1)));
      step.write("g", std::vector<BFloat16>(1001, BFloat16(32768)));
      world.barrier();
      step.run({{"lr", 1e-3}, {"t", 1}});
      const bool has_remainders = kept == MasterWeights::remainders;
      const auto w = bits_of<BFloat16>(step, "w");
      const auto rest = has_remainders ? bits_of<std::int16_t>(step, "remainder") : w;
      REQUIRE_ON_RANK(!has_remainders || std::ranges::count(rest, 0U) == 0);
      std::vector<BFloat16> bad(1001, BFloat16(1));
      bad[77] = BFloat16(INFINITY);
      step.write("g", bad);
      world.barrier();
      step.run({{"lr", 1e-3}, {"t", 2}});
      REQUIRE_ON_RANK(step.scalar_of<float>("skipped") == 1);
      REQUIRE_ON_RANK(bits_of<BFloat16>(step, "w") == w);
      REQUIRE_ON_RANK(!has_remainders || bits_of<std::int16_t>(step, "remainder") == rest);
    });
  }
}

TEST_CASE("master weights are kept as something else beside bf16 in mixed precision only") {
  CHECK(refusal<ProgramError>([] { (void)programs::mixed(f16, MasterWeights::remainders); }) ==
        "master weights are kept as remainders beside a model in bf16, not in f16; keep copies of "
        "them");
  CHECK(refusal<ProgramError>([] {
          (void)programs::find("mlp_block")->build(Mesh({{"world", 2}}), programs::mixed(f16));
        }) == "mlp_block has no master weights; mixed precision is for optimizers");
}
