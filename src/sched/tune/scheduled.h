// A program on its way through schedules that are tried.
#pragma once

#include <vector>

#include "sched/transform.h"

namespace coconet::sched {

/// A program that steps led to, whose own steps may still be tried.
struct Scheduled {
  std::vector<Step> steps;
  ir::Graph graph;
};

/// `from` after `step` and, since what nothing needs only hides what is legal, after dead.
[[nodiscard]] Scheduled after(const Scheduled& from, const Step& step);

/// The steps that keep states sliced which may be.
[[nodiscard]] std::vector<Step> slicing_steps(const ir::Graph& graph);
/// `from` after all of these that are legal one after another.
[[nodiscard]] Scheduled all_sliced(Scheduled from);

}  // namespace coconet::sched
