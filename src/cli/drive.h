// Runs the steps of a compiled program on made-up data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "coconet/world.h"
#include "ir/graph.h"

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

/// 1e-2 for `lr`, the step number from 1 for `t`, 0.5 for others.
[[nodiscard]] double default_scalar(const std::string& name, int step);

/// The scalars of `graph` in that step: those of `options`, else `default_scalar`.
[[nodiscard]] std::map<std::string, double> scalars_at(const ir::Graph& graph,
                                                       const DriveOptions& options, int step);

/// Collective: gives inputs and states their data (see data.h) in the library's own buffers and
/// runs the steps. Returns the time of each step on this rank, in milliseconds. `sizes` as for
/// `compile`.
std::vector<double> drive(Executable& step, const World& world, const Sizes& sizes,
                          const DriveOptions& options);

}  // namespace coconet::cli
