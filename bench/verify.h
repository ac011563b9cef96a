// The problem that contestants solve, and that all of them solve it.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "timing.h"

#if !defined(__NO_MATH_ERRNO__) || (defined(__x86_64__) && !defined(__AVX__))
#error "the contestants need the flags of bench/CMakeLists.txt: -march=native, -fno-math-errno, ..."
#endif

namespace bench {

/// Of all weights, before the first step.
inline constexpr float first_weight = 0.5f;

/// A gradient that differs between ranks and elements, some of which are zero.
struct Gradient {
  std::size_t rank;
  float operator()(std::size_t i) const {
    return 0.01f * (static_cast<float>((7 * i + 3 * rank) % 19) - 9.0f);
  }
};

inline std::vector<float> make_gradient(std::size_t n, int rank) {
  const Gradient gradient{static_cast<std::size_t>(rank)};
  std::vector<float> g(n);
  for (std::size_t i = 0; i < n; ++i) g[i] = gradient(i);
  return g;
}

/// Collective: throws unless `steps` steps of `contestant` lead to results, `results` on this rank,
/// that are `allowed` from `expected` at most, on every rank: of the largest of all where that is
/// above 1, as what is rounded may be that large. An empty `expected` is filled in.
template <class Results>
void verify(Contestant& contestant, const Results& results, int steps, std::vector<float>& expected,
            float allowed = 1e-6f) {
  contestant.begin();
  for (int t = 1; t <= steps; ++t) contestant.step(t);
  MPI_Barrier(MPI_COMM_WORLD);
  if (expected.empty()) {
    for (const auto result : results) expected.push_back(static_cast<float>(result));
  }
  float worst = 0, largest = 1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = std::abs(static_cast<float>(results[i]) - expected[i]);
    worst = difference <= worst ? worst : difference;  // in this order a NaN is kept
    largest = std::max(largest, std::abs(expected[i]));
  }
  int wrong = worst <= allowed * largest ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (wrong != 0) {
    throw std::runtime_error(contestant.name +
                             " computes other results than the peer: they differ by " +
                             std::to_string(worst) + " on this rank, and " +
                             std::to_string(allowed * largest) + " is allowed");
  }
}

}  // namespace bench
