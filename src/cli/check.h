// The check: a scheduled, compiled program against the naive reference of the program as it was
// written, on the same deterministic data, element by element and rank by rank.
#pragma once

#include <optional>
#include <string>

#include "cli/drive.h"
#include "coconet/executable.h"
#include "coconet/program.h"
#include "coconet/schedule.h"
#include "coconet/world.h"

namespace coconet::cli {

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

/// See CheckResult: what rounding may do to a program in `iterations` steps.
[[nodiscard]] double default_tolerance(const Program& program, int iterations);

/// Collective: compares every state and output after `drive` with a reference run of `program`,
/// which rank 0 does for all ranks.
[[nodiscard]] CheckResult compare(Executable& step, const Program& program, const World& world,
                                  const Sizes& sizes, const CheckOptions& options);

/// Collective: `compile`, `drive` and `compare`.
[[nodiscard]] CheckResult run_check(const Program& program, const Schedule& schedule,
                                    const World& world, const Sizes& sizes,
                                    const CheckOptions& options = {});

}  // namespace coconet::cli
