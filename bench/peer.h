// The peer: what an application does without this library. MPI_Allreduce, then the update as one
// vectorized loop, after another one where it needs norms.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "arrays.h"

namespace bench {

/// Sums of squares, of the averaged gradient and of the weights.
struct Squares {
  double g = 0, w = 0;
};

/// Which of them a rule takes.
enum class Norms { none, of_gradient, of_both };

/// The gradient, its sum over all ranks and the weights.
class Summed {
 public:
  /// `in_place` overwrites the gradient with the sum, which is the faster call for large arrays.
  Summed(std::size_t n, int ranks, bool in_place)
      : n_(n),
        scale_(1.0f / static_cast<float>(ranks)),
        in_place_(in_place),
        g_(make_array(n)),
        sum_(make_array(in_place ? 0 : n)),
        w_(make_array(n)) {}

  [[nodiscard]] std::span<const float> weights() const { return {w_.get(), n_}; }

 protected:
  void set(std::span<const float> g, std::span<const float> w) {
    std::copy(g.begin(), g.end(), g_.get());
    std::copy(w.begin(), w.end(), w_.get());
  }
  /// Collective.
  float* add_up() {
    float* const sum = in_place_ ? g_.get() : sum_.get();
    MPI_Allreduce(in_place_ ? MPI_IN_PLACE : g_.get(), sum, static_cast<int>(n_), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }

  std::size_t n_;
  float scale_;
  bool in_place_;
  Array g_, sum_, w_;
};

/// Steps of `Rule`, one of optimizer_peers.h, which says
///   lr         the learning rate
///   states     how many arrays the optimizer keeps, 3 at most
///   norms      which sums of squares it takes
///   prepare    (t), or (t, squares) with norms: what is the same for all elements of step t
///   operator() (gradient, w, states...): updates one element
template <class Rule>
class Peer : public Summed {
 public:
  static constexpr double lr = Rule::lr;
  /// In place the gradient grows from step to step.
  [[nodiscard]] int most_steps() const { return in_place_ ? 40 : 4096; }

  Peer(std::size_t n, int ranks, bool in_place) : Summed(n, ranks, in_place) {
    for (std::size_t i = 0; i < Rule::states; ++i) states_[i] = make_array(n);
  }

  void begin(std::span<const float> g, std::span<const float> w) {
    set(g, w);
    for (std::size_t i = 0; i < Rule::states; ++i) std::fill_n(states_[i].get(), n_, 0.0f);
    rule_ = Rule();
  }

  void step(int t) {
    float* const sum = add_up();
    if constexpr (Rule::norms == Norms::none) {
      rule_.prepare(t);
    } else {
      rule_.prepare(t, squares(sum, w_.get()));
    }
    update(sum, w_.get(), states_[0].get(), states_[1].get(), states_[2].get(), rule_);
  }

 private:
  static constexpr std::size_t block = 4096;  ///< elements that are added up in f32

  [[nodiscard]] Squares squares(const float* __restrict sum, const float* __restrict w) const {
    const float scale = scale_;
    Squares all;
    for (std::size_t begin = 0; begin < n_; begin += block) {
      const std::size_t end = std::min(n_, begin + block);
      float of_g = 0, of_w = 0;
#pragma omp simd reduction(+ : of_g, of_w)
      for (std::size_t i = begin; i < end; ++i) {
        const float gradient = scale * sum[i];
        of_g += gradient * gradient;
        if constexpr (Rule::norms == Norms::of_both) of_w += w[i] * w[i];
      }
      all.g += static_cast<double>(of_g);
      all.w += static_cast<double>(of_w);
    }
    return all;
  }

  /// The averaging is part of the loop: no pass of its own. `rule` is a copy, which no store to an
  /// array can change.
  void update(const float* __restrict sum, float* __restrict w, float* __restrict a,
              float* __restrict b, float* __restrict c, const Rule rule) const {
    const std::size_t n = n_;
    const float scale = scale_;
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (Rule::states == 0) rule(scale * sum[i], w[i]);
      if constexpr (Rule::states == 1) rule(scale * sum[i], w[i], a[i]);
      if constexpr (Rule::states == 2) rule(scale * sum[i], w[i], a[i], b[i]);
      if constexpr (Rule::states == 3) rule(scale * sum[i], w[i], a[i], b[i], c[i]);
    }
  }

  Rule rule_;
  std::array<Array, 3> states_;
};

}  // namespace bench
