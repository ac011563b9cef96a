// The formulas of LARS and NovoGrad: like LAMB they work with norms, of the whole tensor or, where
// parameters are scattered, of each buffer. Schedules know the values `w_norm` and `g_norm`, and
// the sums of squares under them, `w_squares` and `g_squares`.
#include "sched/programs/training.h"

namespace coconet::programs {

void add_formula(Training& training, const LarsOptions& options) {
  const Value& w = training.parameters;
  const Value& g = training.gradient;
  const State m = training.moment("m");
  const Value w_norm = training.norm(w, "w");
  const Value g_norm = training.norm(g, "g");
  const Value w_moves = w_norm > 0;
  const Value scales = logical_and(w_moves, g_norm > 0);
  const Value decay = training.weight_decay(options.weight_decay);
  const Value whole = g_norm + decay * w_norm;
  const Value trusted = options.trust_coefficient * w_norm / whole;
  const Value ratio = training.named(select(scales, trusted, 1), "ratio");
  const Value rate = training.rate(training.lr) * ratio;
  const Value kept = options.momentum * m;
  const Value decayed = g + decay * w;
  training.finish(w - training.update(m, kept + rate * decayed));
}

void add_formula(Training& training, const NovoGradOptions& options) {
  const Value& w = training.parameters;
  const Value& g = training.gradient;
  const State m = training.moment("m");
  const Value t = training.step.t();
  const Value squares = training.squares(g, "g");
  const State v = training.number_state("v", squares.shape());
  const Value kept = options.beta2 * v;
  const Value mean = kept + (1 - options.beta2) * squares;
  const Value first = training.step.once([&] { return equal(t, 1); });
  const Value v1 = training.update(v, select(first, squares, mean));
  const Value size = sqrt(v1) + options.eps;
  const Value direction = g * (1 / size);
  const Value m_kept = options.beta1 * m;
  const Value m1 =
      training.update(m, m_kept + (direction + training.weight_decay(options.weight_decay) * w));
  training.finish(w - training.rate(training.lr) * m1);
}

}  // namespace coconet::programs
