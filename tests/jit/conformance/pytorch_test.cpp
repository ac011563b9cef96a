// The shipped optimizers end where PyTorch's end, Lion and LAMB where the papers' formulas end,
// after 200 steps. The expected values are tests/data/optimizers.json;
// tests/data/make_optimizer_data.py says how they were made. In f32 they are what PyTorch makes of
// f32, which is itself up to 2e-6 from f64 where AdamW rounds 1 - lr * weight_decay.
//
// A deviation is relative to the larger of the expected element and the root mean square of all: an
// element that happens to come near zero carries the rounding errors of the larger numbers that it
// is the difference of.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "coconet/coconet.h"
#include "golden.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "sample.h"

using namespace coconet;
using coconet::test::draw;
using Json = nlohmann::json;

namespace {

/// The function of this name in make_optimizer_data.py.
double sample(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  x ^= x >> 16;
  return (static_cast<double>(x >> 21) - 1024) / 1024;
}

/// The gradient of `rank` at an element of a step. Two ranks' own are the expected average, plus
/// and minus another sample: multiples of 2^-10 in [-2, 2), which f16 holds, and whose average is
/// exact.
double gradient(int step, int n, int i, int rank, int ranks) {
  const auto counter = static_cast<std::uint32_t>(step * n + i);
  const double spread = ranks == 1 ? 0 : sample(counter + (1u << 20));
  return sample(counter) + (rank == 0 ? spread : -spread);
}

Program build(const Json& expected, const Mesh& mesh, programs::Precision precision) {
  const std::string name = expected.at("program").get<std::string>();
  const Json& given = expected.at("options");
  const auto set = [&](const char* option, auto& value) {
    if (given.contains(option)) value = given.at(option).get<std::decay_t<decltype(value)>>();
  };
  const auto set_adam = [&](auto& options) {
    set("beta1", options.beta1);
    set("beta2", options.beta2);
    set("eps", options.eps);
    set("weight_decay", options.weight_decay);
  };
  if (name == "sgd") {
    programs::SgdOptions options;
    set("weight_decay", options.weight_decay);
    return programs::sgd(mesh, precision, options);
  }
  if (name == "momentum_sgd") {
    programs::MomentumSgdOptions options;
    set("momentum", options.momentum);
    set("dampening", options.dampening);
    set("weight_decay", options.weight_decay);
    set("nesterov", options.nesterov);
    return programs::momentum_sgd(mesh, precision, options);
  }
  if (name == "adam") {
    programs::AdamOptions options;
    set_adam(options);
    set("amsgrad", options.amsgrad);
    return programs::adam(mesh, precision, options);
  }
  if (name == "adamw") {
    programs::AdamWOptions options;
    set_adam(options);
    set("amsgrad", options.amsgrad);
    return programs::adamw(mesh, precision, options);
  }
  if (name == "adamax") {
    programs::AdamaxOptions options;
    set_adam(options);
    return programs::adamax(mesh, precision, options);
  }
  if (name == "nadam") {
    programs::NAdamOptions options;
    set_adam(options);
    set("momentum_decay", options.momentum_decay);
    set("decoupled_weight_decay", options.decoupled_weight_decay);
    return programs::nadam(mesh, precision, options);
  }
  if (name == "radam") {
    programs::RAdamOptions options;
    set_adam(options);
    return programs::radam(mesh, precision, options);
  }
  if (name == "adagrad") {
    programs::AdagradOptions options;
    set("lr_decay", options.lr_decay);
    set("weight_decay", options.weight_decay);
    set("initial_accumulator_value", options.initial_accumulator_value);
    return programs::adagrad(mesh, precision, options);
  }
  if (name == "adadelta") {
    programs::AdadeltaOptions options;
    set("rho", options.rho);
    set("eps", options.eps);
    set("weight_decay", options.weight_decay);
    return programs::adadelta(mesh, precision, options);
  }
  if (name == "rmsprop") {
    programs::RmspropOptions options;
    set("alpha", options.alpha);
    set("weight_decay", options.weight_decay);
    set("momentum", options.momentum);
    set("centered", options.centered);
    return programs::rmsprop(mesh, precision, options);
  }
  if (name == "rprop") {
    programs::RpropOptions options;
    set("eta_minus", options.eta_minus);
    set("eta_plus", options.eta_plus);
    set("step_size_min", options.step_size_min);
    set("step_size_max", options.step_size_max);
    return programs::rprop(mesh, precision, options);
  }
  if (name == "lion") {
    programs::LionOptions options;
    set("beta1", options.beta1);
    set("beta2", options.beta2);
    set("weight_decay", options.weight_decay);
    return programs::lion(mesh, precision, options);
  }
  REQUIRE(name == "lamb");
  programs::LambOptions options;
  set_adam(options);
  return programs::lamb(mesh, precision, options);
}

/// The parameters, in mixed precision their master copy, after the steps of `expected`.
std::vector<double> run(const Json& data, const Json& expected, programs::Precision precision,
                        std::string_view schedule, int ranks) {
  const int n = data.at("n").get<int>();
  std::vector<double> result(static_cast<std::size_t>(n));
  const Program program = build(expected, Mesh({{"world", ranks}}), precision);
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
                      gradient(t, n, i, world.rank(), ranks));
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

double worst_deviation(const std::vector<double>& got, const std::vector<double>& expected) {
  double squares = 0;
  for (const double value : expected) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(expected.size()));
  double worst = 0;
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected[i]) / std::max(std::fabs(expected[i]), rms);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

/// Runs each case that is drawn on 1 and 2 ranks under every schedule; `dtype` is that of PyTorch's
/// parameters.
void check_agreement(programs::Precision precision, const char* dtype, double tolerance) {
  const Json data = Json::parse(source_text("tests/data/optimizers.json"));
  std::string previous;
  for (const Json& expected : data.at("cases")) {
    const std::string name =
        expected.at("program").get<std::string>() + (precision.mixed() ? "_mixed" : "");
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
