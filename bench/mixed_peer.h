// The peer of Adam in mixed precision: MPI_Allreduce of 16-bit gradients, then one vectorized loop
// that updates the f32 master weights and rounds them for the model.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "adam_update.h"
#include "arrays.h"
#include "half_lines.h"
#include "half_sum.h"

namespace bench {

/// How gradients go through MPI, which knows no 16-bit floats.
enum class Sum {
  widened,  ///< as f32, twice the bytes
  by_op     ///< in 16 bits, by an operation of this program
};

/// `Element` is coconet::Half or coconet::BFloat16. The number of elements must be a multiple
/// of 16.
template <class Element>
class MixedPeer {
 public:
  MixedPeer(std::size_t n, int ranks, Sum sum)
      : n_(n),
        scale_(1.0f / static_cast<float>(ranks)),
        how_(sum),
        g_(make_array<Element>(n)),
        w_(make_array<Element>(n)),
        narrow_sum_(make_array<Element>(sum == Sum::by_op ? n : 0)),
        wide_sum_(make_array(sum == Sum::widened ? n : 0)),
        master_(make_array(n)),
        m_(make_array(n)),
        v_(make_array(n)) {}

  void begin(std::span<const Element> g, std::span<const Element> w) {
    std::copy(g.begin(), g.end(), g_.get());
    std::copy(w.begin(), w.end(), w_.get());
    for (std::size_t i = 0; i < n_; i += line) widen_line(w_.get() + i, master_.get() + i);
    std::fill_n(m_.get(), n_, 0.0f);
    std::fill_n(v_.get(), n_, 0.0f);
  }

  void step(int t) {
    const auto count = static_cast<int>(n_);
    if (how_ == Sum::by_op) {
      MPI_Allreduce(g_.get(), narrow_sum_.get(), count, MPI_UINT16_T, op_.op(), MPI_COMM_WORLD);
      update(narrow_sum_.get(), t);
    } else {
      for (std::size_t i = 0; i < n_; i += line) widen_line(g_.get() + i, wide_sum_.get() + i);
      MPI_Allreduce(MPI_IN_PLACE, wide_sum_.get(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      update(wide_sum_.get(), t);
    }
  }

  [[nodiscard]] static int most_steps() { return 4096; }
  [[nodiscard]] std::span<const Element> weights() const { return {w_.get(), n_}; }

 private:
  static void read_line(const Element* from, float* to) { widen_line(from, to); }
  static void read_line(const float* from, float* to) { std::copy_n(from, line, to); }

  template <class T>
  void update(const T* __restrict sum, int t) const {
    update(sum, w_.get(), master_.get(), m_.get(), v_.get(), AdamScalars(t));
  }
  template <class T>
  void update(const T* __restrict sum, Element* __restrict w, float* __restrict master,
              float* __restrict m, float* __restrict v, const AdamScalars s) const {
    for (std::size_t i = 0; i < n_; i += line) {
      alignas(64) float gradient[line];
      read_line(sum + i, gradient);
      for (std::size_t l = 0; l < line; ++l)
        adam_update(scale_ * gradient[l], master[i + l], m[i + l], v[i + l], s);
      narrow_line(master + i, w + i);
    }
  }

  std::size_t n_;
  float scale_;
  Sum how_;
  HalfSum<Element> op_;
  ArrayOf<Element> g_, w_, narrow_sum_;
  Array wide_sum_, master_, m_, v_;
};

}  // namespace bench
