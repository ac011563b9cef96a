// What a search found.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "jit/tune/paired_ratios.h"
#include "jit/tune/variant.h"
#include "sched/cost/cluster.h"

namespace coconet::jit {

/// A variant that was measured at one size.
struct Trial {
  Variant variant;
  double predicted_us = 0;  ///< 0 where nothing predicts it
  double ms = 0;
  /// Over the program without a schedule: the median of pairs with the quickest at the time, times
  /// that one's. Machines that change their speed do not change it, as they do `ms`.
  double relative = 1;
  /// Beside the quickest at the time; open where the two could not be told apart.
  PairedRatios::Verdict verdict = PairedRatios::Verdict::open;
};

/// All candidates of a size that run differently, whatever is predicted, each beside the program
/// without a schedule.
struct AllMeasured {
  std::vector<Trial> trials;
  /// Of two measurements of each candidate: what no prediction can exceed, but by chance.
  double repeatability = 0;
  /// The choice of the search beside the best of these: pairs of it and each of the few quickest,
  /// so that none is the best for the noise of its one measurement. 1 where the choice is.
  double choice_over_best = 1;
  std::optional<double> choice_over_mpi = {};  ///< the same beside the program on plain MPI
};

struct TunedSize {
  Sizes sizes;    ///< as they were given
  Sizes extents;  ///< of every dimension
  Variant best;
  double best_ms = 0;
  double unfused_ratio = 1;   ///< the best's time over that of the program without a schedule
  std::vector<Trial> trials;  ///< of the search, in the order in which they were measured
  double preempted = 0;  ///< the share of the ranks' processors that other processes took, at most
  std::string doubt = {};  ///< why the best may not be that; empty where nothing says so
  std::optional<AllMeasured> all = {};
};

/// Candidates that rules kept from being measured, of all sizes.
struct LeftOut {
  std::size_t hopeless = 0;  ///< predicted to take far longer than the quickest
  std::size_t no_room = 0;   ///< with overlaps that there is no room for: they run as others do
  std::size_t many = 0;      ///< beyond the best few
  [[nodiscard]] std::size_t total() const { return hopeless + no_room + many; }
};

struct Tuned {
  sched::Space space;
  sched::Cluster cluster;    ///< that was predicted for
  double calibration_s = 0;  ///< what it took to measure it; 0 where it was known
  LeftOut left_out;
  std::size_t kernels = 0;              ///< different ones, of all that was to be measured
  std::vector<std::string> impossible;  ///< variants that cannot be measured here, and why
  std::vector<TunedSize> sizes;         ///< as far as the search came
  bool whole = true;                    ///< not interrupted
};

/// Spearman's rank correlation: 1 where both are in the same order. 0 for fewer than two.
[[nodiscard]] double rank_correlation(const std::vector<double>& one,
                                      const std::vector<double>& other);
/// Of predicted and relative times.
[[nodiscard]] double rank_correlation(const std::vector<Trial>& trials);

/// The best of a size, each step with a line that says why it is there.
[[nodiscard]] Schedule best_schedule(const Program& program, const Tuned& tuned,
                                     const TunedSize& size);

}  // namespace coconet::jit
