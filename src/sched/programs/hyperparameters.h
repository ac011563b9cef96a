// The hyperparameters of the optimizers by name, with the numbers that each may be: what programs
// check, and what `Shipped::with` and the command line set.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>

#include "coconet/programs.h"

namespace coconet::programs {

/// Numbers that a hyperparameter may be.
struct Range {
  const char* text;
  bool (*contains)(double);
};
inline constexpr Range any_number = {"a number", [](double x) { return x == x; }};
inline constexpr Range from_0 = {"0 or more", [](double x) { return x >= 0; }};
inline constexpr Range from_0_below_1 = {"in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
inline constexpr Range from_0_to_1 = {"in [0, 1]", [](double x) { return x >= 0 && x <= 1; }};
inline constexpr Range between_0_and_1 = {"in (0, 1)", [](double x) { return x > 0 && x < 1; }};
inline constexpr Range positive_f32 = {"more than 0 and at most 3.4e38, as an f32", [](double x) {
                                         using Limits = std::numeric_limits<float>;
                                         return x >= double{Limits::min()} &&
                                                x <= double{Limits::max()};
                                       }};
/// Up to here f32 counts by ones.
inline constexpr Range from_1_to_2_24 = {"in [1, 2^24]",
                                         [](double x) { return x >= 1 && x <= 1 << 24; }};
inline constexpr Range above_1 = {"more than 1", [](double x) { return x > 1; }};
inline constexpr Range flag = {"0 or 1", [](double x) { return x == 0 || x == 1; }};

/// A field of an optimizer's options: a number, or a flag, which is 0 or 1.
template <class Options>
struct Hyperparameter {
  std::string_view name;
  double Options::*number = nullptr;
  bool Options::*is_on = nullptr;
  Range range = flag;

  constexpr Hyperparameter(std::string_view called, double Options::*field, Range numbers)
      : name(called), number(field), range(numbers) {}
  constexpr Hyperparameter(std::string_view called, bool Options::*field)
      : name(called), is_on(field) {}

  [[nodiscard]] constexpr double of(const Options& options) const {
    return number ? options.*number : static_cast<double>(options.*is_on);
  }
  constexpr void set(Options& options, double value) const {
    if (number) {
      options.*number = value;
    } else {
      options.*is_on = value != 0;
    }
  }
};

/// All of an optimizer's.
template <class Options, std::size_t count>
struct OfOptimizer {
  std::string_view name;  ///< of the optimizer
  std::array<Hyperparameter<Options>, count> rows;
};
template <class Options, class... Others>
constexpr OfOptimizer<Options, 1 + sizeof...(Others)> of_optimizer(std::string_view name,
                                                                   Hyperparameter<Options> first,
                                                                   Others... others) {
  return {name, {first, others...}};
}

/// Those of the optimizer with these options, but for TrainingOptions.
template <class Options>
inline constexpr std::nullptr_t hyperparameters = nullptr;

template <>
inline constexpr auto hyperparameters<SgdOptions> =
    of_optimizer("sgd", Hyperparameter("weight_decay", &SgdOptions::weight_decay, from_0));
template <>
inline constexpr auto hyperparameters<MomentumSgdOptions> =
    of_optimizer("momentum_sgd", Hyperparameter("momentum", &MomentumSgdOptions::momentum, from_0),
                 Hyperparameter("dampening", &MomentumSgdOptions::dampening, any_number),
                 Hyperparameter("weight_decay", &MomentumSgdOptions::weight_decay, from_0),
                 Hyperparameter("nesterov", &MomentumSgdOptions::nesterov));
template <>
inline constexpr auto hyperparameters<AdamOptions> =
    of_optimizer("adam", Hyperparameter("beta1", &AdamOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &AdamOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &AdamOptions::eps, from_0),
                 Hyperparameter("weight_decay", &AdamOptions::weight_decay, from_0),
                 Hyperparameter("amsgrad", &AdamOptions::amsgrad));
template <>
inline constexpr auto hyperparameters<AdamWOptions> =
    of_optimizer("adamw", Hyperparameter("beta1", &AdamWOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &AdamWOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &AdamWOptions::eps, from_0),
                 Hyperparameter("weight_decay", &AdamWOptions::weight_decay, from_0),
                 Hyperparameter("amsgrad", &AdamWOptions::amsgrad));
template <>
inline constexpr auto hyperparameters<AdamaxOptions> =
    of_optimizer("adamax", Hyperparameter("beta1", &AdamaxOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &AdamaxOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &AdamaxOptions::eps, from_0),
                 Hyperparameter("weight_decay", &AdamaxOptions::weight_decay, from_0));
template <>
inline constexpr auto hyperparameters<NAdamOptions> =
    of_optimizer("nadam", Hyperparameter("beta1", &NAdamOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &NAdamOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &NAdamOptions::eps, from_0),
                 Hyperparameter("weight_decay", &NAdamOptions::weight_decay, from_0),
                 Hyperparameter("momentum_decay", &NAdamOptions::momentum_decay, from_0),
                 Hyperparameter("decoupled_weight_decay", &NAdamOptions::decoupled_weight_decay));
template <>
inline constexpr auto hyperparameters<RAdamOptions> =
    of_optimizer("radam", Hyperparameter("beta1", &RAdamOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &RAdamOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &RAdamOptions::eps, from_0),
                 Hyperparameter("weight_decay", &RAdamOptions::weight_decay, from_0),
                 Hyperparameter("decoupled_weight_decay", &RAdamOptions::decoupled_weight_decay));
template <>
inline constexpr auto hyperparameters<AdagradOptions> = of_optimizer(
    "adagrad", Hyperparameter("lr_decay", &AdagradOptions::lr_decay, from_0),
    Hyperparameter("weight_decay", &AdagradOptions::weight_decay, from_0),
    Hyperparameter("initial_accumulator_value", &AdagradOptions::initial_accumulator_value, from_0),
    Hyperparameter("eps", &AdagradOptions::eps, from_0));
template <>
inline constexpr auto hyperparameters<AdadeltaOptions> =
    of_optimizer("adadelta", Hyperparameter("rho", &AdadeltaOptions::rho, from_0_to_1),
                 Hyperparameter("eps", &AdadeltaOptions::eps, from_0),
                 Hyperparameter("weight_decay", &AdadeltaOptions::weight_decay, from_0));
template <>
inline constexpr auto hyperparameters<RmspropOptions> =
    of_optimizer("rmsprop", Hyperparameter("alpha", &RmspropOptions::alpha, from_0),
                 Hyperparameter("eps", &RmspropOptions::eps, from_0),
                 Hyperparameter("weight_decay", &RmspropOptions::weight_decay, from_0),
                 Hyperparameter("momentum", &RmspropOptions::momentum, from_0),
                 Hyperparameter("centered", &RmspropOptions::centered));
template <>
inline constexpr auto hyperparameters<RpropOptions> =
    of_optimizer("rprop", Hyperparameter("eta_minus", &RpropOptions::eta_minus, between_0_and_1),
                 Hyperparameter("eta_plus", &RpropOptions::eta_plus, above_1),
                 Hyperparameter("step_size_min", &RpropOptions::step_size_min, from_0),
                 Hyperparameter("step_size_max", &RpropOptions::step_size_max, from_0));
template <>
inline constexpr auto hyperparameters<LionOptions> =
    of_optimizer("lion", Hyperparameter("beta1", &LionOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &LionOptions::beta2, from_0_below_1),
                 Hyperparameter("weight_decay", &LionOptions::weight_decay, from_0));
template <>
inline constexpr auto hyperparameters<LambOptions> =
    of_optimizer("lamb", Hyperparameter("beta1", &LambOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &LambOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &LambOptions::eps, from_0),
                 Hyperparameter("weight_decay", &LambOptions::weight_decay, from_0));
template <>
inline constexpr auto hyperparameters<LarsOptions> =
    of_optimizer("lars", Hyperparameter("momentum", &LarsOptions::momentum, from_0),
                 Hyperparameter("weight_decay", &LarsOptions::weight_decay, from_0),
                 Hyperparameter("trust_coefficient", &LarsOptions::trust_coefficient, from_0));
template <>
inline constexpr auto hyperparameters<NovoGradOptions> =
    of_optimizer("novograd", Hyperparameter("beta1", &NovoGradOptions::beta1, from_0_below_1),
                 Hyperparameter("beta2", &NovoGradOptions::beta2, from_0_below_1),
                 Hyperparameter("eps", &NovoGradOptions::eps, from_0),
                 Hyperparameter("weight_decay", &NovoGradOptions::weight_decay, from_0));

/// Whether the optimizer with these options has a weight decay.
template <class Options>
constexpr bool has_weight_decay() {
  for (const auto& one : hyperparameters<Options>.rows) {
    if (one.name == "weight_decay") return true;
  }
  return false;
}

/// Throws ProgramError where `value` is not in `range`.
void require_in_range(std::string_view optimizer, std::string_view name, double value,
                      const Range& range);

/// The name of the optimizer with these options. Throws ProgramError for the first hyperparameter
/// that is out of its range.
template <class Options>
std::string_view checked_name(const Options& options) {
  const auto& known = hyperparameters<Options>;
  for (const Hyperparameter<Options>& one : known.rows)
    require_in_range(known.name, one.name, one.of(options), one.range);
  return known.name;
}

}  // namespace coconet::programs
