// The peers of Adam over a list of parameters: what an application does without this library.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "adam_update.h"
#include "memory.h"

namespace bench {

/// The parameters of a model and what Adam keeps of them, in buffers of `lengths`: one for each
/// parameter, with an MPI_Allreduce and a loop each, or one packed buffer of all of them.
class ListPeer {
 public:
  ListPeer(std::vector<std::int64_t> lengths, int ranks)
      : scale_(1.0f / static_cast<float>(ranks)) {
    for (const std::int64_t length : lengths) {
      const auto n = static_cast<std::size_t>(length);
      parts_.push_back({n, make_array(n), make_array(n), make_array(n), make_array(n)});
    }
  }

  /// Weights `first_weight`, and the gradient `gradient(i)` of each element of the whole list.
  template <class Gradient>
  void begin(const Gradient& gradient, float first_weight) {
    std::size_t at = 0;
    for (Part& part : parts_) {
      for (std::size_t i = 0; i < part.n; ++i) part.g[i] = gradient(at + i);
      std::fill_n(part.w.get(), part.n, first_weight);
      std::fill_n(part.m.get(), part.n, 0.0f);
      std::fill_n(part.v.get(), part.n, 0.0f);
      at += part.n;
    }
  }

  /// In place, the faster call for long arrays.
  void step(int t) {
    const AdamScalars scalars(t);
    for (Part& part : parts_) {
      MPI_Allreduce(MPI_IN_PLACE, part.g.get(), static_cast<int>(part.n), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      update(part, scalars);
    }
  }

  /// Weight `i` of the whole list.
  [[nodiscard]] float weight(std::size_t i) const {
    for (const Part& part : parts_) {
      if (i < part.n) return part.w[i];
      i -= part.n;
    }
    return 0;
  }

 private:
  struct Part {
    std::size_t n;
    Array g, w, m, v;
  };

  void update(Part& part, const AdamScalars s) const {
    const float* __restrict const g = part.g.get();
    float* __restrict const w = part.w.get();
    float* __restrict const m = part.m.get();
    float* __restrict const v = part.v.get();
    const float scale = scale_;
    for (std::size_t i = 0; i < part.n; ++i) adam_update(scale * g[i], w[i], m[i], v[i], s);
  }

  float scale_;
  std::vector<Part> parts_;
};

}  // namespace bench
