// LAMB as a program: Adam's direction, scaled by the norm of the parameters over its own, both of
// the whole tensor or, where parameters are scattered, of each buffer. Schedules know the values
// `u`, `w_norm`, `u_norm` and `ratio`, and the sums of squares under the norms, `w_squares` and
// `u_squares`.
#include "sched/programs/training.h"

namespace coconet::programs {

Program lamb(const Mesh& mesh, Precision precision, LambOptions options, Storage storage) {
  Training training(mesh, precision, storage, options);
  const Value& w = training.parameters;
  const Moments moments = update_moments(training, training.gradient, options.beta1, options.beta2);
  const Value correction = 1 - pow(options.beta1, moments.t);
  const Value corrected = moments.m * training.number(1 / correction);
  const Value direction =
      corrected / adam_denominator(training, moments, options.beta2, options.eps);
  const Value u = (direction + training.weight_decay(options.weight_decay) * w).named("u");
  const Value w_norm = training.norm(w, "w");
  const Value u_norm = training.norm(u, "u");
  const Value w_moves = w_norm > 0;
  const Value scales = logical_and(w_moves, u_norm > 0);
  const Value ratio = select(scales, w_norm / u_norm, 1).named("ratio");
  const Value step_size = training.rate(training.lr) * ratio;
  training.finish(w - step_size * u);
  return training.program;
}

}  // namespace coconet::programs
