// The steps that tests/data/make_optimizer_pairs.py makes expected values of, for programs run by
// the reference interpreter or by kernels: parameters, gradients and scalars.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coconet/programs.h"

namespace coconet::test {

/// The function of this name in make_optimizer_data.py.
[[nodiscard]] inline double sample(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  x ^= x >> 16;
  return (static_cast<double>(x >> 21) - 1024) / 1024;
}

/// The gradient of `rank` at an element of a step. Two ranks' own are the expected average, plus
/// and minus another sample: multiples of 2^-10 in [-2, 2), which f16 holds, and whose average is
/// exact.
[[nodiscard]] inline double sampled_gradient(int step, int n, int i, int rank, int ranks) {
  const auto counter = static_cast<std::uint32_t>(step * n + i);
  const double spread = ranks == 1 ? 0 : sample(counter + (1u << 20));
  return sample(counter) + (rank == 0 ? spread : -spread);
}

/// The names of TrainingOptions.
inline constexpr const char* training_names[] = {"max_norm",     "max_value",  "gradient_norm",
                                                 "loss_scaling", "loss_scale", "groups",
                                                 "accumulation"};

/// The optimizer `name` with options by the names of their fields.
[[nodiscard]] inline Program optimizer_with(const std::string& name, const nlohmann::json& options,
                                            const Mesh& mesh, programs::Precision precision,
                                            programs::Storage storage = programs::Storage::whole) {
  programs::TrainingOptions training;
  programs::Hyperparameters hyperparameters;
  for (const auto& [option, value] : options.items()) {
    if (option == "max_norm") {
      training.max_norm = value.get<double>();
    } else if (option == "max_value") {
      training.max_value = value.get<double>();
    } else if (option == "gradient_norm") {
      training.gradient_norm = value.get<bool>();
    } else if (option == "loss_scaling") {
      training.loss_scaling = value.get<bool>();
    } else if (option == "loss_scale") {
      training.loss_scale = {.init_scale = value.at("init_scale").get<double>(),
                             .growth_factor = value.at("growth_factor").get<double>(),
                             .backoff_factor = value.at("backoff_factor").get<double>(),
                             .growth_interval = value.at("growth_interval").get<int>()};
    } else if (option == "groups") {
      training.groups = value.get<bool>();
    } else if (option == "accumulation") {
      training.accumulation = value.get<bool>();
    } else {
      hyperparameters[option] = value.is_boolean() ? value.get<bool>() : value.get<double>();
    }
  }
  const programs::Shipped* const shipped = programs::find(name);
  REQUIRE(shipped != nullptr);
  return shipped->with(mesh, precision, training, storage, hyperparameters);
}

/// The larger of |expected| and the root mean square of all, of which deviations are parts: an
/// element that happens to come near zero carries the rounding errors of the larger numbers that it
/// is the difference of.
[[nodiscard]] inline double worst_deviation(const std::vector<double>& got,
                                            const std::vector<double>& expected) {
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

/// One case of optimizer_pairs.json.
class PairCase {
 public:
  PairCase(const nlohmann::json& data, const nlohmann::json& expected)
      : data_(data), expected_(expected), options_(expected.at("options")) {}

  [[nodiscard]] Program program(const Mesh& mesh, programs::Precision precision) const {
    using programs::Storage;
    return optimizer_with(name(), options_, mesh, precision,
                          is_scattered() ? Storage::scattered : Storage::whole);
  }
  [[nodiscard]] std::string name() const { return expected_.at("program").get<std::string>(); }
  [[nodiscard]] std::string str() const {
    return name() + (expected_.at("scattered").get<bool>() ? " scattered " : " ") + options_.dump();
  }
  [[nodiscard]] std::vector<double> expected() const {
    return expected_.at("w").get<std::vector<double>>();
  }
  /// The norm of the gradient of the last step; nothing where it is not asked for.
  [[nodiscard]] std::optional<double> gradient_norm() const {
    if (!expected_.contains("gradient_norm")) return std::nullopt;
    return expected_.at("gradient_norm").get<double>();
  }
  [[nodiscard]] std::vector<std::int64_t> lengths() const {
    return data_.at("lengths").get<std::vector<std::int64_t>>();
  }
  [[nodiscard]] std::vector<double> lr_scale() const {
    return data_.at("lr_scale").get<std::vector<double>>();
  }
  [[nodiscard]] std::vector<double> weight_decay() const {
    return data_.at("weight_decay").get<std::vector<double>>();
  }
  /// The names of the options that are not their defaults.
  [[nodiscard]] std::vector<std::string> chosen() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : options_.items()) names.push_back(name);
    if (is_scattered()) names.emplace_back("scattered");
    return names;
  }
  [[nodiscard]] int steps() const { return data_.at("steps").get<int>(); }

  /// The parameters before the first step.
  [[nodiscard]] std::vector<double> initial() const {
    std::vector<double> w(expected().size());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = sample(static_cast<std::uint32_t>(i));
    return w;
  }
  /// What `rank` of two gives to a step whose loss is multiplied by `scale`.
  [[nodiscard]] std::vector<double> gradient(int step, int rank, double scale) const {
    const auto n = static_cast<int>(expected().size());
    const double factor = (scales() ? scale : 1) * (sums() ? 2 : 1);
    std::vector<double> g(expected().size());
    for (int i = 0; i < n; ++i)
      g[static_cast<std::size_t>(i)] = sampled_gradient(step, n, i, rank, 2) * factor;
    const auto bad = data_.at("bad_steps").get<std::vector<int>>();
    if (scales() && rank == 1 && std::ranges::find(bad, step) != bad.end())
      g[g.size() - 4] = std::numeric_limits<double>::infinity();
    return g;
  }
  [[nodiscard]] double lr(int step) const { return 0.01 * (1 + step % 3); }
  [[nodiscard]] bool is_scattered() const { return expected_.at("scattered").get<bool>(); }
  [[nodiscard]] bool scales() const { return options_.contains("loss_scaling"); }
  [[nodiscard]] bool sums() const { return options_.contains("accumulation"); }
  /// The scale of the first step's loss.
  [[nodiscard]] double init_scale() const {
    if (!options_.contains("loss_scale")) return programs::LossScale().init_scale;
    return options_.at("loss_scale").at("init_scale").get<double>();
  }

 private:
  const nlohmann::json& data_;
  const nlohmann::json& expected_;
  const nlohmann::json& options_;
};

}  // namespace coconet::test
