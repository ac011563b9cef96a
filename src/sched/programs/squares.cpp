// The formulas of Adagrad, Adadelta and RMSprop: a step is divided by the root of past gradients'
// squares. They and the defaults are those of torch.optim (2.x).
#include "sched/programs/training.h"

namespace coconet::programs {

void add_formula(Training& training, const AdagradOptions& options) {
  const State v = training.moment("v");
  const Value gradient = training.regularised(options.weight_decay);
  Value rate = training.rate(training.lr);
  Value before = v;
  if (options.lr_decay != 0 || options.initial_accumulator_value != 0) {
    const Value t = training.step.t();
    if (options.lr_decay != 0) {
      rate = training.rate(
          training.step.once([&] { return training.lr / (1 + (t - 1) * options.lr_decay); }));
    }
    if (options.initial_accumulator_value != 0) {
      const Value initial = training.step.once([&] {
        const double value = options.initial_accumulator_value;
        const Value is_first = equal(t, 1);
        // With loss scaling t is a tensor, which chooses among numbers for a tensor of f64.
        return training.step.scales_loss() ? select(is_first, value, 0, DType::f64)
                                           : select(is_first, value, 0);
      });
      before = v + training.number(initial);
    }
  }
  const Value v1 = training.update(v, before + square(gradient));
  const Value denominator = sqrt(v1) + options.eps;
  training.finish(training.parameters - rate * (gradient / denominator));
}

void add_formula(Training& training, const AdadeltaOptions& options) {
  const State v = training.moment("v");
  const State d = training.moment("d");
  const Value gradient = training.regularised(options.weight_decay);
  const Value v_kept = options.rho * v;
  const Value v1 = training.update(v, v_kept + (1 - options.rho) * gradient * gradient);
  const Value root = sqrt(v1 + options.eps);
  const Value step = sqrt(d + options.eps) / root * gradient;
  const Value d_kept = options.rho * d;
  training.update(d, d_kept + (1 - options.rho) * step * step);
  training.finish(training.parameters - training.rate(training.lr) * step);
}

void add_formula(Training& training, const RmspropOptions& options) {
  const State v = training.moment("v");
  const Value gradient = training.regularised(options.weight_decay);
  const Value v_kept = options.alpha * v;
  const Value v1 = training.update(v, v_kept + (1 - options.alpha) * gradient * gradient);
  Value variance = v1;
  if (options.centered) {
    const State mean = training.moment("mean");
    const Value mean_kept = options.alpha * mean;
    const Value mean1 = training.update(mean, mean_kept + (1 - options.alpha) * gradient);
    const Value difference = maximum(v1 - square(mean1), 0);  // rounding may take it below 0
    // Of a gradient whose squares overflow, so may the mean's, and their difference is no number.
    variance = select(isfinite(v1), difference, v1);
  }
  Value step = gradient / (sqrt(variance) + options.eps);
  if (options.momentum != 0) {
    const State m = training.moment("m");
    const Value m_kept = options.momentum * m;
    step = training.update(m, m_kept + step);
  }
  training.finish(training.parameters - training.rate(training.lr) * step);
}

}  // namespace coconet::programs
