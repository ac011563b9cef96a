// The update that every contestant of the Adam benchmark computes for one element, written once.
#pragma once

#include <cmath>

namespace bench {

inline constexpr double beta1 = 0.9;
inline constexpr double beta2 = 0.999;
inline constexpr double learning_rate = 1e-3;

/// What is the same for all elements of a step: computed once, in double, before the loop.
struct AdamScalars {
  float decay1 = static_cast<float>(beta1), fresh1 = static_cast<float>(1 - beta1);
  float decay2 = static_cast<float>(beta2), fresh2 = static_cast<float>(1 - beta2);
  float step_size;   ///< lr / (1 - beta1^t)
  float correction;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon = 1e-8f;

  explicit AdamScalars(int t)
      : step_size(static_cast<float>(learning_rate / (1 - std::pow(beta1, t)))),
        correction(static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)))) {}
};

/// The operations of coconet::programs::adam in the same order: torch.optim.Adam's, but for what is
/// divided by numbers of the step, which is multiplied by their inverses.
[[gnu::always_inline]] inline void adam_update(float gradient, float& w, float& m, float& v,
                                               const AdamScalars& s) {
  m = s.decay1 * m + s.fresh1 * gradient;
  v = s.decay2 * v + s.fresh2 * gradient * gradient;
  w = w - s.step_size * (m / (std::sqrt(v) * s.correction + s.epsilon));
}

}  // namespace bench
