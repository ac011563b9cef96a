// LAMB as a program: Adam's direction, scaled by the norm of the parameters over its own, both of
// the whole tensor or, where parameters are scattered, of each buffer. Schedules know the values
// `u`, `w_norm`, `u_norm` and `ratio`, and the sums of squares under the norms, `w_squares` and
// `u_squares`.
#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

/// The norm of `value`, called `name`_norm, or of each of its buffers. The squares of 16-bit floats
/// overflow, or lose all digits of a long sum.
Value norm_of(const Value& value, const std::string& name, Storage storage) {
  const Value wide = size_of(value.dtype()) == 2 ? cast(value, DType::f32) : value;
  const Value squared = square(wide);
  const Value total = storage == Storage::scattered ? sum(squared, per_buffer) : sum(squared);
  const Value squares = total.named(name + "_squares");
  return sqrt(squares).named(name + "_norm");
}

}  // namespace

Program lamb(const Mesh& mesh, Precision precision, LambOptions options, Storage storage) {
  Training training("lamb", mesh, precision, storage);
  const Value& w = training.parameters;
  const Moments moments = update_moments(training, training.gradient, options.beta1, options.beta2);
  const Value corrected = moments.m / (1 - pow(options.beta1, moments.t));
  const Value direction = corrected / adam_denominator(moments, options.beta2, options.eps);
  const Value u = (direction + options.weight_decay * w).named("u");
  const Value w_norm = norm_of(w, "w", storage);
  const Value u_norm = norm_of(u, "u", storage);
  const Value w_moves = w_norm > 0;
  const Value scales = logical_and(w_moves, u_norm > 0);
  const Value ratio = select(scales, w_norm / u_norm, 1).named("ratio");
  const Value step_size =
      training.lr * (ratio.dtype() == u.dtype() ? ratio : cast(ratio, u.dtype()));
  training.finish(w - step_size * u);
  return training.program;
}

}  // namespace coconet::programs
