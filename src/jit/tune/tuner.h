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
#include "jit/tune/tuned.h"
#include "sched/cost/cluster.h"

namespace coconet::jit {

struct TuneOptions {
  /// Lengths of the buffers of scattered tensors, at every size.
  ParameterLists lists = {};
  /// What predictions are for; nothing: the machine at hand, as `calibrate` finds it.
  std::optional<sched::Cluster> cluster = {};
  /// What is predicted to take this many times as long as the quickest, matmuls left out, is not
  /// measured; 0: everything is.
  double hopeless = 1.5;
  /// Schedules to measure at a size, those that are predicted to be the quickest, beside the
  /// program without one, and fewer where they take long; 0: any number.
  std::size_t most = 6;
  /// Whether candidates whose overlaps the machine has no room for are left out, which then run as
  /// others without these do.
  bool skips_crowded_overlaps = true;
  /// After the search, whatever it left out is measured, too: `TunedSize::all`.
  bool exhaustive = false;
  bool knobs = true;  ///< whether those of the quickest plan are searched, too
  int pairs = 31;     ///< of samples, at most, of a candidate and the quickest so far
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

/// Collective: measures at each of `sizes`, which name every dimension that has no default. The
/// program without a schedule is a candidate, and wins ties; so is the same with its collectives by
/// MPI alone, where there is MPI. All ranks get the same but for times.
[[nodiscard]] Tuned tune(const Program& program, const World& world,
                         const std::vector<Sizes>& sizes, const TuneOptions& options);
/// Collective: the same, and puts what is found into the tuning file, size by size, the machine
/// included.
Tuned tune_and_keep(const Program& program, const World& world, const std::vector<Sizes>& sizes,
                    const TuneOptions& options);

}  // namespace coconet::jit
