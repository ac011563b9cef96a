// What every optimizer starts from and ends with: parameters, their averaged gradient, and the
// write of new ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coconet/programs.h"
#include "sched/programs/hyperparameters.h"

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

/// Whether gradients are averaged over "gpu", between ranks of a node, and then over "node".
[[nodiscard]] bool averages_by_nodes(const Mesh& mesh);

/// A state, which formulas take for its elements as the optimizer computes with them.
struct State {
  Value stored;
  Value value;  ///< `stored`, in Training::wide

  operator const Value&() const { return value; }  // NOLINT: implicit by design
};

/// An optimizer computes in f32 at least, whatever it stores: states and the gradient are widened
/// where they are read (`moment`, `parameters`, `gradient`), and `update` rounds once what it
/// writes. In 16 bits the squares of small gradients are 0 and those of large ones infinite.
struct Training {
  Program program;
  Precision precision;
  DType wide;  ///< what it computes in: f64 where moments are f64, else f32
  Storage storage;
  Dim n;
  Value g;  ///< this rank's gradient, or the sum of several
  Value w;
  Value lr;          ///< the scalar; `rate` is what parameters move by
  Value avg;         ///< the gradient averaged over the ranks
  State parameters;  ///< what the optimizer updates: w, or in mixed precision the master weights
  Value gradient;    ///< avg in `wide`, of one batch, unscaled and clipped
  TrainingOptions options;
  std::optional<Value> finite;   ///< with loss scaling: whether the step is taken
  std::optional<Value> skipped;  ///< with loss scaling: the steps before that were not

  Training(const std::string& name, const Mesh& mesh, Precision precision, Storage storage,
           const TrainingOptions& options);
  /// Of the optimizer with these options, which must be in their ranges.
  template <class Options>
  Training(const Mesh& mesh, Precision dtypes, Storage stored, const Options& of_optimizer)
      : Training(std::string(checked_name(of_optimizer)), mesh, dtypes, stored,
                 with_training(TrainingOptions{}, of_optimizer)) {}

  /// A state like the parameters.
  State moment(const char* name) {
    return loaded(program.state(name, precision.master, {n}, replicated));
  }
  /// Numbers of all parameters, or of each buffer, which are few: in what the optimizer computes
  /// in.
  State number_state(const char* name, const Shape& shape) {
    return loaded(program.state(name, wide, shape, replicated));
  }
  /// The number of the step, from 1: of those that were taken.
  Value t();
  /// A number that combines with the parameters: what is computed from `t` may be f64.
  [[nodiscard]] Value number(const Value& value) const;
  /// What is computed from `lr`, of each buffer where there are groups.
  [[nodiscard]] Value rate(const Value& value) const;
  /// `option`, or of each buffer what the application says.
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
    return sqrt(squares(value, name)).named(name + "_norm");
  }
  /// Ends the step: the parameters become `value`.
  void finish(const Value& value);

 private:
  /// `value` in `wide`.
  [[nodiscard]] Value widened(const Value& value) const;
  [[nodiscard]] State loaded(const Value& state) const { return {state, widened(state)}; }
  /// What a state with the elements `before` gets in this step, if it gets `value` in those that
  /// are taken.
  [[nodiscard]] Value if_taken(const Value& value, const Value& before) const;
  /// In mixed precision: a state, or computed from `w`.
  State master_weights();
  /// The scalar `t`.
  const Value& given_t();
  /// The average, divided by the number of batches that it is of.
  Value gradient_of_batch();
  /// The gradient divided by the scale of the loss.
  void unscale();
  void clip();

  Value scale_;                        ///< of the loss, in this step
  Value lr_scale_;                     ///< with groups
  std::optional<Value> remainder_;     ///< with MasterWeights::remainders
  std::optional<Value> given_t_;       ///< made when it is asked for
  std::optional<Value> t_;             ///< likewise
  std::optional<Value> weight_decay_;  ///< likewise
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

}  // namespace coconet::programs
