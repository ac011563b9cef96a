// How long a plan takes on a cluster, predicted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sched/cost/cluster.h"
#include "sched/cost/work.h"

namespace coconet::sched {

/// Microseconds of one step on the rank that has the most to do.
struct StepEstimate {
  std::string name;
  std::string way;     ///< of an exchange: "ring, simple"
  double latency = 0;  ///< launches, barriers, hops: what no bandwidth shortens
  double memory = 0;   ///< reading and writing the rank's own memory
  double links = 0;    ///< what others send and get
  double arithmetic = 0;
  /// The latency, and what takes longest of the rest, which goes on at once.
  [[nodiscard]] double total() const;
  /// What binds the step: "memory", "links", "arithmetic" or "latency".
  [[nodiscard]] std::string_view bound() const;
};

struct Estimate {
  std::vector<StepEstimate> steps;  ///< by the plan's steps
  double us = 0;                    ///< of the whole, overlaps included
  double matmuls_us = 0;            ///< of the matmuls, one after the other
  /// Why the plan cannot run there, such as a kernel that reaches other nodes; empty where it can.
  std::string problem;
};

/// `sizes` has the extents of all symbols. Throws ConfigError when the mesh does not have the
/// cluster's ranks.
[[nodiscard]] Estimate estimate(const Plan& plan, const ir::Sizes& sizes, const Cluster& cluster);

}  // namespace coconet::sched
