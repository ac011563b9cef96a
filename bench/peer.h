// The peer: what an application does without this library. MPI_Allreduce, then Adam as one
// vectorized loop.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "adam_update.h"
#include "memory.h"

namespace bench {

class Peer {
 public:
  /// `in_place` overwrites the gradient with the sum. That is the faster call for large arrays, but
  /// repeating it multiplies the gradient, so `begin` must be called again before `most_steps`
  /// steps have run.
  Peer(std::size_t n, int ranks, bool in_place)
      : n_(n),
        scale_(1.0f / static_cast<float>(ranks)),
        in_place_(in_place),
        g_(make_array(n)),
        sum_(make_array(in_place ? 0 : n)),
        w_(make_array(n)),
        m_(make_array(n)),
        v_(make_array(n)) {}

  static constexpr int most_steps = 40;

  void begin(std::span<const float> g, std::span<const float> w) {
    std::copy(g.begin(), g.end(), g_.get());
    std::copy(w.begin(), w.end(), w_.get());
    std::fill_n(m_.get(), n_, 0.0f);
    std::fill_n(v_.get(), n_, 0.0f);
  }

  void step(int t) {
    float* const sum = in_place_ ? g_.get() : sum_.get();
    MPI_Allreduce(in_place_ ? MPI_IN_PLACE : g_.get(), sum, static_cast<int>(n_), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
    update(sum, w_.get(), m_.get(), v_.get(), AdamScalars(t));
  }

  [[nodiscard]] std::span<const float> weights() const { return {w_.get(), n_}; }

 private:
  /// The averaging is part of the loop: no pass of its own.
  void update(const float* __restrict sum, float* __restrict w, float* __restrict m,
              float* __restrict v, const AdamScalars s) const {
    const std::size_t n = n_;
    const float scale = scale_;
    for (std::size_t i = 0; i < n; ++i) adam_update(scale * sum[i], w[i], m[i], v[i], s);
  }

  std::size_t n_;
  float scale_;
  bool in_place_;
  Array g_, sum_, w_, m_, v_;
};

}  // namespace bench
