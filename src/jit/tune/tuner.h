// The tuner: the quickest of a program's schedules on this machine, by measurement.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
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
  /// Lengths of the buffers of scattered tensors, at every size.
  ParameterLists lists = {};
  /// What predictions are for; nothing: the machine at hand, as `calibrate` finds it.
  std::optional<sched::Cluster> cluster = {};
  /// What is predicted to take this many times as long as the quickest, matmuls left out, is not
  /// measured; 0: everything is.
  double hopeless = 1.5;
  /// Schedules to measure at a size, those that are predicted to be the quickest, beside the
  /// program without one; 0: any number.
  std::size_t most = 6;
  bool knobs = true;  ///< whether those of the quickest plan are searched, too
  int pairs = 7;      ///< of samples, at most, of a candidate and the quickest so far
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

/// A schedule, and what replaces the knobs of its kernels.
struct Variant {
  std::size_t candidate = 0;  ///< of the space
  Knobs knobs = {};
  bool operator==(const Variant&) const = default;
};

/// A schedule that was measured at one size.
struct Trial {
  Variant variant;
  double predicted_us = 0;
  double ms = 0;
  /// Over the program without a schedule: the median of pairs with the quickest at the time, times
  /// that one's. Machines that change their speed do not change it, as they do `ms`.
  double relative = 1;
  bool stopped = false;  ///< early, as hopeless
};

struct TunedSize {
  Sizes sizes;
  Variant best;
  double best_ms = 0;
  double unfused_ratio = 1;   ///< the best's time over that of the program without a schedule
  std::vector<Trial> trials;  ///< in the order in which they were measured
};

struct Tuned {
  sched::Space space;
  sched::Cluster cluster;               ///< that was predicted for
  double calibration_s = 0;             ///< what it took to measure it; 0 where it was known
  std::size_t predicted_away = 0;       ///< of all sizes: candidates that were not measured
  std::size_t kernels = 0;              ///< different ones, of all that was to be measured
  std::vector<std::string> impossible;  ///< schedules that cannot be measured here, and why
  std::vector<TunedSize> sizes;         ///< as far as the search came
  bool whole = true;                    ///< not interrupted
};

/// Collective: measures at each of `sizes`, which name every dimension that has no default. The
/// program without a schedule is a candidate, and wins ties. All ranks get the same but for times.
[[nodiscard]] Tuned tune(const Program& program, const World& world,
                         const std::vector<Sizes>& sizes, const TuneOptions& options);
/// Collective: the same, and puts what was found into the tuning file, the machine included.
Tuned tune_and_keep(const Program& program, const World& world, const std::vector<Sizes>& sizes,
                    const TuneOptions& options);

/// Spearman's rank correlation of predicted and relative times: 1 where the model orders the trials
/// as they are. 0 for fewer than two.
[[nodiscard]] double rank_correlation(const std::vector<Trial>& trials);

/// For people: its steps, and the knobs that it sets.
[[nodiscard]] std::string describe(const sched::Space& space, const Variant& variant);
/// The schedule of a variant.
[[nodiscard]] Schedule schedule_of(const sched::Space& space, const Variant& variant,
                                   const std::string& name);
/// The best of a size, each step with a line that says why it is there.
[[nodiscard]] Schedule best_schedule(const Program& program, const Tuned& tuned,
                                     const TunedSize& size);

}  // namespace coconet::jit
