// The peer of LAMB: MPI_Allreduce, then two vectorized loops with the norms between them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "adam_update.h"
#include "peer.h"

namespace bench {

class LambPeer : public Summed {
 public:
  static constexpr double lr = learning_rate;
  /// The sum becomes a direction, which does not grow.
  [[nodiscard]] static int most_steps() { return 4096; }

  /// `n` must be a multiple of 16.
  LambPeer(std::size_t n, int ranks, bool in_place)
      : Summed(n, ranks, in_place), m_(make_array(n)), v_(make_array(n)) {}

  void begin(std::span<const float> g, std::span<const float> w) {
    set(g, w);
    std::fill_n(m_.get(), n_, 0.0f);
    std::fill_n(v_.get(), n_, 0.0f);
  }

  void step(int t) {
    float* const sum = add_up();
    const Squares squares = find_direction(sum, w_.get(), m_.get(), v_.get(), t);
    const double ratio =
        squares.w > 0 && squares.u > 0 ? std::sqrt(squares.w) / std::sqrt(squares.u) : 1;
    move(w_.get(), sum, static_cast<float>(learning_rate * ratio));
  }

 private:
  /// Sums of squares, of the weights and of the direction.
  struct Squares {
    double w = 0, u = 0;
  };
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t block = 4096;  ///< elements that are added up in f32

  /// Updates the moments and leaves the direction in `sum`, where the second loop finds it.
  Squares find_direction(float* __restrict sum, const float* __restrict w, float* __restrict m,
                         float* __restrict v, int t) const {
    const AdamScalars s(t);
    const float correction1 = static_cast<float>(1 / (1 - std::pow(beta1, t)));
    const float scale = scale_;
    Squares squares;
    for (std::size_t begin = 0; begin < n_; begin += block) {
      const std::size_t end = std::min(n_, begin + block);
      float w_squares[lanes] = {}, u_squares[lanes] = {};
      for (std::size_t i = begin; i < end; i += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) {
          const float gradient = scale * sum[i + l];
          const float m1 = s.decay1 * m[i + l] + s.fresh1 * gradient;
          const float v1 = s.decay2 * v[i + l] + s.fresh2 * gradient * gradient;
          const float u =
              m1 * correction1 / (std::sqrt(v1) * s.correction + epsilon) + weight_decay * w[i + l];
          m[i + l] = m1;
          v[i + l] = v1;
          sum[i + l] = u;
          w_squares[l] += w[i + l] * w[i + l];
          u_squares[l] += u * u;
        }
      }
      for (std::size_t l = 0; l < lanes; ++l) {
        squares.w += static_cast<double>(w_squares[l]);
        squares.u += static_cast<double>(u_squares[l]);
      }
    }
    return squares;
  }

  void move(float* __restrict w, const float* __restrict u, float step_size) const {
    for (std::size_t i = 0; i < n_; ++i) w[i] -= step_size * u[i];
  }

  static constexpr float epsilon = 1e-6f;
  static constexpr float weight_decay = 0.01f;

  Array m_, v_;
};

}  // namespace bench
