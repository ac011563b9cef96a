// That all contestants solve the problem.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem.h"
#include "timing.h"

#if !defined(__NO_MATH_ERRNO__) || (defined(__x86_64__) && !defined(__AVX__))
#error "the contestants need the flags of bench/CMakeLists.txt: -march=native, -fno-math-errno, ..."
#endif

namespace bench {

/// Collective: as `verify` says of the results of who is called `name`.
template <class Results>
void require_same(const std::string& name, const Results& results, std::vector<float>& expected,
                  float allowed) {
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
    throw std::runtime_error(name + " computes other results than the peer: they differ by " +
                             std::to_string(worst) + " on this rank, and " +
                             std::to_string(allowed * largest) + " is allowed");
  }
}

/// Collective: throws unless `steps` steps of `contestant` lead to results, `results` on this rank
/// or what it returns, that are `allowed` from `expected` at most, on every rank: of the largest of
/// all where that is above 1, as what is rounded may be that large. An empty `expected` is filled
/// in.
template <class Results>
void verify(const Contestant& contestant, const Results& results, int steps,
            std::vector<float>& expected, float allowed = 1e-6f) {
  contestant.begin();
  for (int t = 1; t <= steps; ++t) contestant.step(t);
  MPI_Barrier(MPI_COMM_WORLD);
  if constexpr (std::invocable<Results>) {
    require_same(contestant.name, results(), expected, allowed);
  } else {
    require_same(contestant.name, results, expected, allowed);
  }
}

}  // namespace bench
