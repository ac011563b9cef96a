// The space of schedules: every way to run a program that legal transformations lead to.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "sched/plan.h"
#include "sched/transform.h"

namespace coconet::sched {

/// One way to run a program.
struct Candidate {
  std::vector<Step> steps;
  ir::Graph graph;  ///< the program after them
  Plan plan;
};

/// Rules that leave candidates out before anything is estimated. Each can be off, so that tests
/// compare what they leave with the whole.
struct SpaceRules {
  /// Schedules that lead to one program are one, whatever the order of their steps.
  bool merge_programs = true;
  /// Programs that are lowered to one plan are one.
  bool merge_plans = true;
  /// Where states can be kept sliced they are, all at once: a rank then writes, gathers and keeps
  /// less.
  bool slice_all = true;
  /// Candidates to stop at.
  std::size_t most = 4096;
  /// Values, in all programs that are reached, to stop at: a third of a gigabyte.
  std::int64_t most_values = 1 << 18;
};

struct Space {
  /// The first has no steps.
  std::vector<Candidate> candidates;
  std::size_t generated = 0;           ///< programs that a step led to
  std::size_t same_program = 0;        ///< of those, which were there
  std::size_t same_plan = 0;           ///< of the others, whose plan was
  std::vector<std::string> unplanned;  ///< schedules whose program cannot be lowered, and why
  bool whole = true;                   ///< not stopped at `most` or `most_values`
};

/// Breadth first from `graph`, so that a candidate has as few steps as lead there. States are kept
/// sliced where the program says that they may.
[[nodiscard]] Space find_space(const ir::Graph& graph, const SpaceRules& rules = {});

/// "split op=avg; dead": the steps as text.
[[nodiscard]] std::string to_string(const std::vector<Step>& steps);

}  // namespace coconet::sched
