// The tuner: the quickest of a program's schedules on this machine, by measurement.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "coconet/world.h"
#include "sched/cost/cluster.h"
#include "sched/tune/space.h"

namespace coconet::jit {

struct Tuned;

struct TuneOptions {
  /// States that the application does not need whole.
  std::set<std::string> sliceable = {};
  /// What is predicted to take this many times as long as the quickest is not measured; 0:
  /// everything is.
  double hopeless = 2;
  int pairs = 7;  ///< of samples, of a candidate and the quickest so far
  /// Called on rank 0 before each measurement: of how many, and the best so far.
  struct Progress {
    std::size_t done = 0, all = 0;
    double best_ms = 0;
    double seconds_left = 0;
  };
  std::function<void(const Progress&)> progress = {};
  /// Called on rank 0 after each size, with all so far.
  std::function<void(const Tuned&)> finished_size = {};
  /// Asked on every rank between measurements; any rank's yes ends the search with the best so far.
  std::function<bool()> interrupted = {};
};

/// A schedule that was measured at one size.
struct Trial {
  std::size_t candidate = 0;  ///< of the space
  double predicted_us = 0;
  double ms = 0;
  double ratio = 1;      ///< over the quickest when it was measured
  bool stopped = false;  ///< early, as hopeless
};

struct TunedSize {
  Sizes sizes;
  std::size_t best = 0;  ///< of the space
  double best_ms = 0;
  double unfused_ratio = 1;   ///< the best's time over that of the program without a schedule
  std::vector<Trial> trials;  ///< in the order in which they were measured
};

struct Tuned {
  sched::Space space;
  std::size_t predicted_away = 0;       ///< of all sizes: candidates that were not measured
  std::size_t kernels = 0;              ///< different ones, of all that was to be measured
  std::vector<std::string> impossible;  ///< schedules that cannot be measured here, and why
  std::vector<TunedSize> sizes;         ///< as far as the search came
  bool whole = true;                    ///< not interrupted
};

/// Collective: measures at each of `sizes`, which name every dimension that has no default. The
/// program without a schedule is a candidate, and wins ties. All ranks get the same but for times.
[[nodiscard]] Tuned tune(const Program& program, const World& world, const sched::Cluster& cluster,
                         const std::vector<Sizes>& sizes, const TuneOptions& options);

/// Spearman's rank correlation of predicted and measured times: 1 where the model orders the trials
/// as they are. 0 for fewer than two.
[[nodiscard]] double rank_correlation(const std::vector<Trial>& trials);

/// The schedule of a candidate.
[[nodiscard]] Schedule schedule_of(const sched::Candidate& candidate, const std::string& name);

}  // namespace coconet::jit
