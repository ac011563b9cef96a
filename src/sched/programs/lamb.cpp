// The formula of LAMB: Adam's direction, scaled by the norm of the parameters over its own, both of
// the whole tensor or, where parameters are scattered, of each buffer. Schedules know the values
// `u`, `w_norm`, `u_norm` and `ratio`, and the sums of squares under the norms, `w_squares` and
// `u_squares`.
#include "sched/programs/training.h"

namespace coconet::programs {

void add_formula(Training& training, const LambOptions& options) {
  const Value& w = training.parameters;
  const Moments moments = update_moments(training, training.gradient, options.beta1, options.beta2);
  const Value factor = training.step.once([&] {
    const Value correction = 1 - pow(options.beta1, moments.t);
    return 1 / correction;
  });
  const Value corrected = moments.m * training.number(factor);
  const Value direction =
      corrected / adam_denominator(training, moments, options.beta2, options.eps);
  const Value decay = training.weight_decay(options.weight_decay);
  const Value u = training.named(direction + decay * w, "u");
  const Value w_norm = training.norm(w, "w");
  const Value u_norm = training.norm(u, "u");
  const Value w_moves = w_norm > 0;
  const Value scales = logical_and(w_moves, u_norm > 0);
  const Value ratio = training.named(select(scales, w_norm / u_norm, 1), "ratio");
  const Value step_size = training.rate(training.lr) * ratio;
  training.finish(w - step_size * u);
}

}  // namespace coconet::programs
