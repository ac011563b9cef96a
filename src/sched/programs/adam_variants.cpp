// The formulas of Adamax, NAdam and RAdam, optimizers that differ from Adam in how they use its
// moments. They and the defaults are those of torch.optim (2.x).
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sched/programs/training.h"

namespace coconet::programs {

namespace {

/// NAdam's momentum of step `t` is beta1 * (1 - q^t / 2), where q is this to the power of
/// momentum_decay. Dozat's number.
constexpr double nadam_base = 0.96;

/// The product of NAdam's momenta of the steps 1 to `t`, computed from `t` alone, so that no state
/// has to go with the moments. With y = q^t,
///   log(product / beta1^t) = sum over i = 1..t of log(1 - q^i / 2)
///                          = - sum over k >= 1 of term(k) * (1 - y^k),
///   term(k) = (1/2)^k / k * q^k / (1 - q^k),
/// as log(1 - x) = - sum of x^k / k, and the sum over i is of a geometric series. 1 - y is a factor
/// of all 1 - y^k: taken out, nothing cancels, and what is left is a polynomial of y whose
/// coefficient of y^j is the sum of all later terms.
Value product_of_momenta(Step& step, const Value& t, double beta1, double momentum_decay) {
  if (momentum_decay == 0) return pow(beta1 / 2, t);
  constexpr int terms = 40;  // (1/2)^40 / 40 is less than the rounding of a double
  const double log_q = momentum_decay * std::log(nadam_base);
  std::vector<double> later(terms, 0);
  double sum = 0;
  for (int k = terms; k >= 1; --k) {
    sum += std::pow(0.5, k) / k * std::exp(k * log_q) / -std::expm1(k * log_q);
    later[static_cast<std::size_t>(k - 1)] = sum;
  }
  const Value less_1 = step.named(expm1(log_q * t), "mu_y_less_1");
  const Value y = step.named(less_1 + 1, "mu_y");
  Value polynomial = y * later.back() + later[later.size() - 2];
  for (std::size_t j = later.size() - 2; j-- > 0;) polynomial = polynomial * y + later[j];
  const Value decays = exp(less_1 * polynomial);
  return step.named(pow(beta1, t) * decays, "mu_product");
}

/// The momentum of step `t`, a Value or a double.
template <class Number>
Number nadam_momentum(const Number& t, double beta1, double momentum_decay) {
  using std::pow;
  const Number decayed = pow(nadam_base, momentum_decay * t);
  return beta1 * (1 - 0.5 * decayed);
}

struct Decayed {
  Value parameters;
  Value gradient;
};

/// Weights decay once: off themselves, if that is `decoupled`, or else into the gradient.
Decayed decay(Training& training, double weight_decay, bool decoupled) {
  if (decoupled) return {training.decayed(weight_decay), training.gradient};
  return {training.parameters, training.regularised(weight_decay)};
}

}  // namespace

void add_formula(Training& training, const AdamaxOptions& options) {
  const State m = training.moment("m");
  const State u = training.moment("u");
  const Value t = training.step.t();
  const Value gradient = training.regularised(options.weight_decay);
  const Value m_kept = options.beta1 * m;
  const Value m1 = training.update(m, m_kept + (1 - options.beta1) * gradient);
  const Value u_kept = options.beta2 * u;
  const Value u1 = training.update(u, maximum(u_kept, abs(gradient) + options.eps));
  const Value corrected_lr =
      training.step.once([&] { return training.lr / (1 - pow(options.beta1, t)); });
  const Value step_size = training.rate(corrected_lr);
  training.finish(training.parameters - step_size * (m1 / u1));
}

void add_formula(Training& training, const NAdamOptions& options) {
  const auto [parameters, gradient] =
      decay(training, options.weight_decay, options.decoupled_weight_decay);
  const Moments moments = update_moments(training, gradient, options.beta1, options.beta2);
  const Value denominator = adam_denominator(training, moments, options.beta2, options.eps);
  Step& step = training.step;
  const Value mu =
      step.once([&] { return nadam_momentum(moments.t, options.beta1, options.momentum_decay); });
  const Value next_mu = step.once([&] {
    const Value next_t = moments.t + 1;
    return nadam_momentum(next_t, options.beta1, options.momentum_decay);
  });
  const Value product = step.once(
      [&] { return product_of_momenta(step, moments.t, options.beta1, options.momentum_decay); });
  const Value of_gradient = step.once([&] { return training.lr * (1 - mu); });
  const Value of_momentum = step.once([&] { return training.lr * next_mu; });
  const Value gradient_rate = training.rate(step.once([&] { return of_gradient / (1 - product); }));
  const Value momentum_rate =
      training.rate(step.once([&] { return of_momentum / (1 - product * next_mu); }));
  const Value after_gradient = parameters - gradient_rate * (gradient / denominator);
  training.finish(after_gradient - momentum_rate * (moments.m / denominator));
}

double nadam_mu_product(std::int64_t t, const NAdamOptions& options) {
  double product = 1;
  // The least numbers that there are never become 0: times 0.9 they round to themselves.
  constexpr double least = std::numeric_limits<double>::min();
  for (std::int64_t step = 1; step <= t && product >= least; ++step)
    product *= nadam_momentum(static_cast<double>(step), options.beta1, options.momentum_decay);
  return product;
}

void add_formula(Training& training, const RAdamOptions& options) {
  const auto [parameters, gradient] =
      decay(training, options.weight_decay, options.decoupled_weight_decay);
  const Moments moments = update_moments(training, gradient, options.beta1, options.beta2);
  const Value& t = moments.t;
  // The length of the moving average behind v, and its limit. Up to 5 the variance of 1 / sqrt(v)
  // is not bounded, and v is left out.
  const double limit = 2 / (1 - options.beta2) - 1;
  Step& step = training.step;
  const Value kept = step.once([&] { return step.named(pow(options.beta2, t), "beta2_t"); });
  const Value correction = step.once([&] { return step.named(1 - kept, "v_correction"); });
  const Value length =
      step.once([&] { return step.named(limit - 2 * t * kept / correction, "length"); });
  const Value rectified = step.once([&] { return step.named(length > 5, "rectified"); });
  const Value scale = step.once([&] {
    const Value at_least_5 = maximum(length, 5);
    const double of_limit = limit > 5 ? limit / ((limit - 4) * (limit - 2)) : 0;
    const Value less_4 = (at_least_5 - 4) * of_limit;
    const Value rectification = sqrt(less_4 * (at_least_5 - 2) / at_least_5);
    return select(rectified, rectification * sqrt(correction), 1);
  });
  const Value root = sqrt(moments.v);
  const Value denominator = select(rectified, root + options.eps, 1);
  const Value rate = training.rate(step.once([&] {
    const Value step_size = training.lr / (1 - pow(options.beta1, t));
    return step_size * scale;
  }));
  training.finish(parameters - rate * (moments.m / denominator));
}

}  // namespace coconet::programs
