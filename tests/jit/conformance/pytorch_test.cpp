// The shipped optimizers end where PyTorch's end, Lion and LAMB where the papers' formulas end,
// after 200 steps. The expected values are tests/data/optimizers.json;
// tests/data/make_optimizer_data.py says how they were made. In f32 they are what PyTorch makes of
// f32, which is itself up to 2e-6 from f64 where AdamW rounds 1 - lr * weight_decay.
// Options in pairs, of which optimizer_pairs_test runs all in the reference, are compared in
// kernels after 20 steps.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "coconet/coconet.h"
#include "elements.h"
#include "golden.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "optimizer_pairs.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;
using Json = nlohmann::json;

namespace {

/// The parameters, in mixed precision their master copy, after the steps of `expected`.
std::vector<double> run(const Json& data, const Json& expected, programs::Precision precision,
                        std::string_view schedule, int ranks) {
  const int n = data.at("n").get<int>();
  std::vector<double> result(static_cast<std::size_t>(n));
  const Program program =
      optimizer_with(expected.at("program").get<std::string>(), expected.at("options"),
                     Mesh({{"world", ranks}}), precision);
  const auto has = [&](const char* name) { return ir::graph_of(program)->find(name) >= 0; };
  World::local(ranks, [&](World& world) {
    Executable step =
        compile(program, Schedule::load(program.name() + "-" + std::string(schedule) + ".json"),
                world, {{"n", n}});
    void* const g = step.data("g", precision.model).data;
    void* const w = step.data("w", precision.model).data;
    for (int i = 0; i < n; ++i) {
      store_element(precision.model, w, static_cast<std::size_t>(i),
                    sample(static_cast<std::uint32_t>(i)));
    }
    // What the rank holds of the parameters: the whole, or its slice of the master copy.
    void* const parameters = precision.mixed() ? step.data("master", precision.master).data : w;
    const std::size_t held = step.count(precision.mixed() ? "master" : "w");
    const bool whole = held == result.size();
    const std::size_t begin =
        whole ? 0 : static_cast<std::size_t>(world.rank() * block_length(n, ranks));
    for (std::size_t i = 0; i < held; ++i)
      store_element(precision.master, parameters, i, sample(static_cast<std::uint32_t>(begin + i)));
    for (int t = 1; t <= data.at("steps").get<int>(); ++t) {
      for (int i = 0; i < n; ++i) {
        store_element(precision.model, g, static_cast<std::size_t>(i),
                      sampled_gradient(t, n, i, world.rank(), ranks));
      }
      std::vector<ScalarValue> scalars = {{"lr", data.at("lr").get<double>()}};
      if (has("t")) scalars.emplace_back("t", t);
      step.run(scalars);
    }
    world.barrier();
    if (whole && world.rank() != 0) return;
    for (std::size_t i = 0; i < held; ++i)
      result[begin + i] = load_element(precision.master, parameters, i);
  });
  return result;
}

/// The parameters after the steps of `one` in f32, fused, on two ranks.
std::vector<double> run_pair(const PairCase& one) {
  std::vector<double> result(one.expected().size());
  const Program program = one.program(Mesh({{"world", 2}}), f32);
  const ir::Graph& graph = *ir::graph_of(program);
  World::local(2, [&](World& world) {
    const Sizes sizes = {{"n", static_cast<std::int64_t>(result.size())}};
    ParameterLists lists;
    if (!ir::listed_dims(graph).empty()) lists["n"] = one.lengths();
    Executable step =
        compile(program, Schedule::load(one.name() + "-fused.json"), world, sizes, lists);
    const auto write = [&](const char* name, const std::vector<double>& elements) {
      if (graph.find(name) >= 0)
        step.write(name, std::vector<float>(elements.begin(), elements.end()));
    };
    write("w", one.initial());
    write("lr_scale", one.lr_scale());
    write("weight_decay", one.weight_decay());
    double scale = one.init_scale();
    for (int t = 1; t <= one.steps(); ++t) {
      write("g", one.gradient(t, world.rank(), scale));
      std::vector<ScalarValue> scalars = {{"lr", one.lr(t)}};
      if (graph.find("t") >= 0) scalars.emplace_back("t", t);
      if (one.sums()) scalars.emplace_back("microbatches", 2);
      step.run(scalars);
      if (one.scales()) scale = static_cast<double>(step.scalar_of<float>("scale"));
    }
    const std::vector<float> w = elements_of(step, "w");
    world.barrier();
    if (world.rank() == 0) std::ranges::copy(w, result.begin());
  });
  return result;
}

/// Runs each case that is drawn on 1 and 2 ranks under every schedule; `dtype` is that of PyTorch's
/// parameters.
void check_agreement(programs::Precision precision, const char* dtype, double tolerance) {
  const Json data = Json::parse(source_text("tests/data/optimizers.json"));
  std::string previous;
  for (const Json& expected : data.at("cases")) {
    const std::string name = expected.at("program").get<std::string>();
    // In mixed precision the first options of each program.
    if (precision.mixed() && name == previous) continue;
    previous = name;
    double worst = 0;
    for (const int ranks : {1, 2}) {
      for (const std::string_view schedule : programs::find(name)->schedules) {
        if (!draw()) continue;
        INFO(name << " " << expected.at("options") << ", " << schedule << " on " << ranks
                  << " ranks");
        const double deviation = worst_deviation(run(data, expected, precision, schedule, ranks),
                                                 expected.at(dtype).get<std::vector<double>>());
        CHECK(deviation <= tolerance);
        worst = std::max(worst, deviation);
      }
    }
    std::printf("%-18s %s: worst deviation %.1e  %s\n", name.c_str(), dtype, worst,
                expected.at("options").dump().c_str());
  }
}

}  // namespace

TEST_CASE("the optimizers agree with PyTorch's f32 over 200 steps to 1e-6") {
  check_agreement(f32, "f32", 1e-6);
}

TEST_CASE("in f64 they agree to the rounding of 200 steps") {
  check_agreement(f64, "f64", 1e-14);
}

TEST_CASE("master weights agree with PyTorch's f32 parameters over 200 steps of f16 gradients") {
  check_agreement(programs::mixed(f16), "f32", 1e-6);
}

TEST_CASE("kernels of pairs of options give PyTorch's parameters after 20 steps to 1e-5") {
  const Json data = Json::parse(source_text("tests/data/optimizer_pairs.json"));
  for (const Json& expected : data.at("cases")) {
    const PairCase one(data, expected);
    if (!draw()) continue;
    INFO(one.str());
    CHECK(worst_deviation(run_pair(one), one.expected()) <= 1e-5);
  }
}
