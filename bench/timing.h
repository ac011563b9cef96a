// Medians of interleaved measurements over all ranks: slow spells of the machine hit every
// contestant alike.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Contestant {
  std::string name;
  std::function<void()> begin = [] {};  ///< untimed, before each sample
  std::function<void(int)> step;        ///< one whole step, number t from 1
  int most_steps = 4096;                ///< steps that may follow one `begin`
  /// Milliseconds of one step, of so many in a row; empty where this process takes them.
  std::function<double(int)> elsewhere = {};
  double ms = 0;  ///< result: median time of a step on the slowest rank
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Milliseconds of one step: `steps` in a row, after one that brings the caches to where a step
/// leaves them.
inline double sample(const Contestant& contestant, int steps) {
  if (contestant.elsewhere) return contestant.elsewhere(steps);
  contestant.begin();
  contestant.step(1);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < steps; ++i) contestant.step(i + 2);
  double ms = (MPI_Wtime() - start) * 1e3 / steps;
  MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return ms;
}

/// Collective: fills in `ms` of every contestant. A sample lasts about half a millisecond, so that
/// the clock's own time and the ranks' different starts do not count.
inline void measure(std::vector<Contestant>& contestants) {
  constexpr int samples = 15;
  constexpr double sample_ms = 0.5;
  std::vector<int> steps;
  for (const Contestant& c : contestants) {
    sample(c, 2);
    const double warm_ms = sample(c, std::min(16, c.most_steps - 1));
    const double wanted = std::ceil(sample_ms / std::max(warm_ms, 1e-6));
    steps.push_back(
        static_cast<int>(std::clamp(wanted, 2.0, static_cast<double>(c.most_steps - 1))));
  }
  std::vector<std::vector<double>> times(contestants.size());
  for (int s = 0; s < samples; ++s) {
    for (std::size_t c = 0; c < contestants.size(); ++c) {
      times[c].push_back(sample(contestants[c], steps[c]));
    }
  }
  for (std::size_t c = 0; c < contestants.size(); ++c) {
    contestants[c].ms = median(times[c]);
  }
}

/// Milliseconds of the fastest of `contestants` that are called one of `names`.
inline double fastest(const std::vector<Contestant>& contestants,
                      std::initializer_list<std::string_view> names) {
  double ms = std::numeric_limits<double>::infinity();
  for (const Contestant& contestant : contestants) {
    if (std::ranges::find(names, contestant.name) != names.end()) ms = std::min(ms, contestant.ms);
  }
  return ms;
}

}  // namespace bench
