// The formulas of SGD, Adam and AdamW. They and the defaults are those of torch.optim (2.x).
#include <fmt/format.h>

#include "coconet/error.h"
#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

/// The update that Adam and AdamW share, of `parameters` that may have been decayed already.
void adam_step(Training& training, const Value& gradient, const Value& parameters, double beta1,
               double beta2, double eps, bool amsgrad) {
  Moments moments = update_moments(training, gradient, beta1, beta2);
  if (amsgrad) {
    const State v_max = training.moment("v_max");
    moments.v = training.update(v_max, maximum(v_max, moments.v));
  }
  const Value corrected_lr =
      training.step.once([&] { return training.lr / (1 - pow(beta1, moments.t)); });
  const Value step_size = training.rate(corrected_lr);
  const Value denominator = adam_denominator(training, moments, beta2, eps);
  training.finish(parameters - step_size * (moments.m / denominator));
}

}  // namespace

void add_formula(Training& training, const SgdOptions& options) {
  const Value gradient = training.regularised(options.weight_decay);
  training.finish(training.parameters - training.rate(training.lr) * gradient);
}

void add_formula(Training& training, const MomentumSgdOptions& options) {
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw ProgramError(fmt::format(
        "momentum_sgd: nesterov is for a momentum above 0 with no dampening; they are {} and {}",
        options.momentum, options.dampening));
  }
  const State m = training.moment("m");
  const Value gradient = training.regularised(options.weight_decay);
  const Value kept = options.momentum * m;
  // The first step takes the whole gradient, whatever the dampening is; t tells it from later ones.
  Value fresh = gradient;
  if (options.dampening != 0) {
    const Value dampened = (1 - options.dampening) * gradient;
    const Value first = training.step.once([&] { return equal(training.step.t(), 1); });
    fresh = select(first, gradient, dampened);
  }
  const Value m1 = training.update(m, kept + fresh);
  const Value direction = options.nesterov ? gradient + options.momentum * m1 : m1;
  training.finish(training.parameters - training.rate(training.lr) * direction);
}

void add_formula(Training& training, const AdamOptions& options) {
  adam_step(training, training.regularised(options.weight_decay), training.parameters,
            options.beta1, options.beta2, options.eps, options.amsgrad);
}

void add_formula(Training& training, const AdamWOptions& options) {
  adam_step(training, training.gradient, training.decayed(options.weight_decay), options.beta1,
            options.beta2, options.eps, options.amsgrad);
}

}  // namespace coconet::programs
