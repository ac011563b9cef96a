// The rules of all optimizers that peers compute with one loop, or two with norms: those of
// coconet::programs with its default hyperparameters, with the same operations in the same order.
// What is the same for all elements is computed once a step, in double.
#pragma once

#include <cmath>
#include <cstddef>

#include "adam_update.h"
#include "peer.h"

namespace bench::rules {

/// What a rule says if it says nothing else. Learning rates are such that three steps move weights
/// by far more than rounding, so that a wrong update is seen.
struct Rule {
  static constexpr double lr = learning_rate;
  static constexpr std::size_t states = 2;
  static constexpr Norms norms = Norms::none;
  void prepare(int /*t*/) {}
};

[[gnu::always_inline]] inline float sign(float x) {
  return static_cast<float>(x > 0) - static_cast<float>(x < 0);
}
[[gnu::always_inline]] inline float larger(float a, float b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline float smaller(float a, float b) {
  return a < b ? a : b;
}

struct Sgd : Rule {
  static constexpr double lr = 0.1;
  static constexpr std::size_t states = 0;
  void operator()(float g, float& w) const { w = w - static_cast<float>(lr) * g; }
};

struct MomentumSgd : Rule {
  static constexpr double lr = 0.1;
  static constexpr std::size_t states = 1;
  void operator()(float g, float& w, float& m) const {
    m = 0.9f * m + g;
    w = w - static_cast<float>(lr) * m;
  }
};

struct Adam : Rule {
  AdamScalars s = AdamScalars(1);
  void prepare(int t) { s = AdamScalars(t); }
  void operator()(float g, float& w, float& m, float& v) const { adam_update(g, w, m, v, s); }
};

struct AdamW : Adam {
  static constexpr float kept = static_cast<float>(1 - lr * 0.01);
  void operator()(float g, float& w, float& m, float& v) const {
    w = w * kept;
    adam_update(g, w, m, v, s);
  }
};

struct AmsGrad : Adam {
  static constexpr std::size_t states = 3;
  void operator()(float g, float& w, float& m, float& v, float& v_max) const {
    m = s.decay1 * m + s.fresh1 * g;
    v = s.decay2 * v + s.fresh2 * g * g;
    v_max = larger(v_max, v);
    w = w - s.step_size * (m / (std::sqrt(v_max) * s.correction + s.epsilon));
  }
};

struct Adamax : Adam {
  void operator()(float g, float& w, float& m, float& u) const {
    m = s.decay1 * m + s.fresh1 * g;
    u = larger(s.decay2 * u, std::abs(g) + s.epsilon);
    w = w - s.step_size * (m / u);
  }
};

struct NAdam : Adam {
  double product = 1;  ///< of all momenta so far
  float gradient_rate = 0, momentum_rate = 0;
  static double momentum(int t) { return beta1 * (1 - 0.5 * std::pow(0.96, 0.004 * t)); }
  void prepare(int t) {
    Adam::prepare(t);
    const double mu = momentum(t), next_mu = momentum(t + 1);
    product *= mu;
    gradient_rate = static_cast<float>(lr * (1 - mu) / (1 - product));
    momentum_rate = static_cast<float>(lr * next_mu / (1 - product * next_mu));
  }
  void operator()(float g, float& w, float& m, float& v) const {
    m = s.decay1 * m + s.fresh1 * g;
    v = s.decay2 * v + s.fresh2 * g * g;
    const float denominator = std::sqrt(v) * s.correction + s.epsilon;
    w = w - gradient_rate * (g / denominator) - momentum_rate * (m / denominator);
  }
};

struct RAdam : Adam {
  bool rectified = false;  ///< the loop is compiled once for each
  float rate = 0;
  void prepare(int t) {
    Adam::prepare(t);
    const double limit = 2 / (1 - beta2) - 1;
    const double kept = std::pow(beta2, t);
    const double length = limit - 2 * t * kept / (1 - kept);
    double scale = 1;
    rectified = length > 5;
    if (rectified) {
      scale = std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length) *
                        (1 - kept));
    }
    rate = static_cast<float>(lr / (1 - std::pow(beta1, t)) * scale);
  }
  void operator()(float g, float& w, float& m, float& v) const {
    m = s.decay1 * m + s.fresh1 * g;
    v = s.decay2 * v + s.fresh2 * g * g;
    w = w - rate * (rectified ? m / (std::sqrt(v) + s.epsilon) : m);
  }
};

struct Adagrad : Rule {
  static constexpr double lr = 0.01;
  static constexpr std::size_t states = 1;
  void operator()(float g, float& w, float& v) const {
    v = v + g * g;
    w = w - static_cast<float>(lr) * (g / (std::sqrt(v) + 1e-10f));
  }
};

struct Adadelta : Rule {
  static constexpr double lr = 1;
  static constexpr float rho = 0.9f, fresh = static_cast<float>(1 - 0.9), epsilon = 1e-6f;
  void operator()(float g, float& w, float& v, float& d) const {
    v = rho * v + fresh * g * g;
    const float step = std::sqrt(d + epsilon) / std::sqrt(v + epsilon) * g;
    d = rho * d + fresh * step * step;
    w = w - static_cast<float>(lr) * step;
  }
};

struct RmsProp : Rule {
  static constexpr std::size_t states = 1;
  static constexpr float alpha = 0.99f, fresh = static_cast<float>(1 - 0.99);
  void operator()(float g, float& w, float& v) const {
    v = alpha * v + fresh * g * g;
    w = w - static_cast<float>(lr) * (g / (std::sqrt(v) + 1e-8f));
  }
};

struct Rprop : Rule {
  bool first = true;
  void prepare(int t) { first = t == 1; }
  void operator()(float g, float& w, float& previous, float& size) const {
    const float before = first ? static_cast<float>(lr) : size;
    const float agreement = g * previous;
    const float factor = agreement > 0 ? 1.2f : agreement < 0 ? 0.5f : 1.0f;
    const float next = smaller(larger(factor * before, 1e-6f), 50.0f);
    const float used = g * static_cast<float>(agreement >= 0);  // a select splits the loop
    size = next;
    previous = used;
    w = w - sign(used) * next;
  }
};

struct Lion : Rule {
  static constexpr std::size_t states = 1;
  static constexpr float leaned = 0.9f, lean = static_cast<float>(1 - 0.9);
  static constexpr float kept = 0.99f, fresh = static_cast<float>(1 - 0.99);
  void operator()(float g, float& w, float& m) const {
    const float direction = sign(leaned * m + lean * g);
    m = kept * m + fresh * g;
    w = w - static_cast<float>(lr) * direction;
  }
};

struct Lars : Rule {
  static constexpr double lr = 1;
  static constexpr std::size_t states = 1;
  static constexpr Norms norms = Norms::of_both;
  static constexpr double weight_decay = 0.0005, trust_coefficient = 0.001;
  float rate = 0;
  void prepare(int /*t*/, const Squares& squares) {
    const double g = std::sqrt(squares.g), w = std::sqrt(squares.w);
    const double ratio = g > 0 && w > 0 ? trust_coefficient * w / (g + weight_decay * w) : 1;
    rate = static_cast<float>(lr * ratio);
  }
  void operator()(float g, float& w, float& m) const {
    m = 0.9f * m + rate * (g + static_cast<float>(weight_decay) * w);
    w = w - m;
  }
};

struct NovoGrad : Rule {
  static constexpr double lr = 1;
  static constexpr std::size_t states = 1;
  static constexpr Norms norms = Norms::of_gradient;
  double v = 0;
  float inverse = 0;  ///< of the size
  void prepare(int t, const Squares& squares) {
    v = t == 1 ? squares.g : 0.98 * v + (1 - 0.98) * squares.g;
    inverse = 1 / static_cast<float>(std::sqrt(v) + 1e-8);
  }
  void operator()(float g, float& w, float& m) const {
    m = 0.95f * m + g * inverse;
    w = w - static_cast<float>(lr) * m;
  }
};

}  // namespace bench::rules
