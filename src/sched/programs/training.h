// What every optimizer starts from and ends with: parameters, their gradient, and the write of new
// ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coconet/programs.h"
#include "sched/programs/hyperparameters.h"
#include "sched/programs/step.h"

namespace coconet::programs {

/// `to` with the fields of TrainingOptions that `from` has: one is these, the other the options of
/// an optimizer, which repeat them.
template <class To, class From>
[[nodiscard]] To with_training(To to, const From& from) {
  to.max_norm = from.max_norm;
  to.max_value = from.max_value;
  to.gradient_norm = from.gradient_norm;
  to.loss_scaling = from.loss_scaling;
  to.loss_scale = from.loss_scale;
  to.groups = from.groups;
  to.accumulation = from.accumulation;
  return to;
}

/// What the names of programs with Storage::scattered end with.
inline constexpr std::string_view scattered_suffix = "_scattered";

/// That of `value`, as an application writes it.
[[nodiscard]] Layout layout_of(const Value& value);

/// A state, which formulas take for its elements as the optimizer computes with them.
struct State {
  Value stored;
  Value value;  ///< `stored`, in Training::wide

  operator const Value&() const { return value; }  // NOLINT: implicit by design
};

/// One tensor of parameters in the step of an optimizer, as its formula sees it. An optimizer
/// computes in f32 at least, whatever it stores: states and the gradient are widened where they are
/// read (`moment`, `parameters`, `gradient`), and `update` rounds once what it writes. In 16 bits
/// the squares of small gradients are 0 and those of large ones infinite.
struct Training {
  Program program;
  Step& step;
  Precision precision;
  DType wide;  ///< what it computes in: f64 where moments are f64, else f32
  Value w;
  Value lr;           ///< the scalar; `rate` is what parameters move by
  State parameters;   ///< what the optimizer updates: w, or in mixed precision the master weights
  Value gradient;     ///< of one batch in `wide`, unscaled and clipped by Step::prepare
  std::string scope;  ///< what is made for it is named in

  /// Of the parameters `w` with their complete gradient.
  Training(Program& program, Step& step, Precision precision, const Value& w, const Value& gradient,
           std::string scope, const ParameterGroup* group);

  /// A state like the parameters.
  State moment(const char* name) { return loaded(state(name, precision.master, w.shape())); }
  /// Numbers of all parameters, or of each buffer, which are few: in what the optimizer computes
  /// in.
  State number_state(const char* name, const Shape& shape) {
    return loaded(state(name, wide, shape));
  }
  /// A number that combines with the parameters: what is computed from `t` may be f64.
  [[nodiscard]] Value number(const Value& value) const;
  /// What is computed from `lr`, of each buffer or of a group where there are such.
  [[nodiscard]] Value rate(const Value& value) const;
  /// `option`, or what there is in its place for this tensor or each of its buffers.
  Value weight_decay(double option);
  /// Writes `value` into `state` if the step is taken, and returns what it has then, before it is
  /// rounded to 16 bits.
  Value update(const State& state, const Value& value) const;
  /// The gradient with L2 regularisation, as SGD and Adam apply it.
  [[nodiscard]] Value regularised(double weight_decay);
  /// The parameters after decay of their own, as AdamW applies it.
  [[nodiscard]] Value decayed(double weight_decay);
  /// The sum of the squares of `value`, called `name`_squares: of all, or where parameters are
  /// scattered of each buffer.
  [[nodiscard]] Value squares(const Value& value, const std::string& name) const;
  /// Its root, called `name`_norm.
  [[nodiscard]] Value norm(const Value& value, const std::string& name) const {
    return named(sqrt(squares(value, name)), name + "_norm");
  }
  /// `value` called `name` in the scope, unless the application has a value of that name.
  [[nodiscard]] Value named(const Value& value, const std::string& name) const {
    return step.named(value, name);
  }
  /// Ends the step: the parameters become `value`.
  void finish(const Value& value);
  /// What `w` is after the step.
  [[nodiscard]] const Value& result() const { return result_; }

 private:
  /// `value` in `wide`.
  [[nodiscard]] Value widened(const Value& value) const;
  [[nodiscard]] State loaded(const Value& state) const { return {state, widened(state)}; }
  /// A state of the optimizer, which schedules may keep sliced: the model reads its parameters
  /// whole, and nothing but the step reads the rest.
  Value state(const char* name, DType dtype, Shape shape);
  /// A number for each buffer, which the application writes.
  Value of_buffers(const char* name);
  /// Whether weights decay, if by `option` where nothing takes its place.
  [[nodiscard]] bool decays(double option) const;
  /// Writes `value` into `state`, in the dtype of that, and returns what it has then.
  static Value written(const Value& state, const Value& value);
  /// In mixed precision: a state, or computed from `w`.
  State master_weights();
  /// The gradient, divided by the number of batches that it is of.
  [[nodiscard]] Value of_batch(const Value& gradient) const;

  bool scattered_;
  std::optional<ParameterGroup> group_;
  Value result_;
  Value lr_scale_;                     ///< with groups
  std::optional<Value> remainder_;     ///< with MasterWeights::remainders
  std::optional<Value> weight_decay_;  ///< made when it is asked for
};

/// Adam's moments after the step, not corrected for their bias.
struct Moments {
  Value m;
  Value v;
  Value t;  ///< the number of the step, from 1
};
[[nodiscard]] Moments update_moments(Training& training, const Value& gradient, double beta1,
                                     double beta2);

/// sqrt(v / (1 - beta2^t)) + eps, as torch.optim.Adam computes it.
[[nodiscard]] Value adam_denominator(const Training& training, const Moments& moments, double beta2,
                                     double eps);

// The formulas: what the step of the optimizer with these options does to one tensor.
#define COCONET_OPTIMIZER(name, Options, summary) \
  void add_formula(Training& training, const Options& options);
#include "coconet/optimizers.def"
#undef COCONET_OPTIMIZER

}  // namespace coconet::programs
