// The check: a scheduled, compiled program against the naive reference of the program as it was
// written, on the same deterministic data, element by element and rank by rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "coconet/program.h"
#include "coconet/schedule.h"
#include "coconet/world.h"

namespace coconet::cli {

struct DriveOptions {
  int iterations = 3;  ///< steps; the scalar `t` counts them from 1
  std::uint64_t seed = 1;
  std::map<std::string, double> scalars;  ///< overrides of `default_scalar`
  bool fresh_inputs = true;  ///< other inputs for each step, which finds reads of stale data
  /// Writes inputs and states before the first step, instead of made-up data.
  std::function<void(Executable&)> give = {};
  int first = 0;            ///< steps that a resumed run took before, which `t` counts, too
  bool has_states = false;  ///< the states have their elements already
  /// Called after each step, outside its time, with the steps taken.
  std::function<void(Executable&, int)> after = {};
};

struct CheckOptions {
  DriveOptions drive;
  ParameterLists
      lists;  ///< with the extents that `sizes` gives; default of `run_check`: `test_lists`
  std::optional<double>
      tolerance;  ///< largest relative error of floats; default `default_tolerance`
};

/// What a check found; the same on every rank.
struct CheckResult {
  bool passed = false;
  double max_rel_error =
      0;  ///< largest |got - expected| / max(|expected|, rms of the expected tensor)
  double tolerance = 0;
  bool bit_identical = true;  ///< ranks that must hold the same values hold the same bytes
  std::string failure;        ///< when it did not pass: tensor, index, rank, got and expected
};

/// 1e-2 for `lr`, the step number from 1 for `t`, 0.5 for others.
[[nodiscard]] double default_scalar(const std::string& name, int step);

/// See CheckResult: what rounding may do to a program in `iterations` steps.
[[nodiscard]] double default_tolerance(const Program& program, int iterations);

/// Collective: gives inputs and states their data (see data.h) in the library's own buffers and
/// runs the steps. Returns the time of each step on this rank, in milliseconds. `sizes` as for
/// `compile`.
std::vector<double> drive(Executable& step, const World& world, const Sizes& sizes,
                          const DriveOptions& options);

/// Collective: compares every state and output after `drive` with a reference run of `program`,
/// which rank 0 does for all ranks.
[[nodiscard]] CheckResult compare(Executable& step, const Program& program, const World& world,
                                  const Sizes& sizes, const CheckOptions& options);

/// Collective: `compile`, `drive` and `compare`.
[[nodiscard]] CheckResult run_check(const Program& program, const Schedule& schedule,
                                    const World& world, const Sizes& sizes,
                                    const CheckOptions& options = {});

}  // namespace coconet::cli
