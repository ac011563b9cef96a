// Which steps run at once: the rules of kernels that take the results of other steps tile by tile.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "sched/plan.h"

namespace coconet::sched {

/// A step that can run beside others: a kernel, or a matmul on its own.
struct Stage {
  const ir::Fusion* kernel = nullptr;  ///< null: the matmul
  std::set<ir::ValueId> values;        ///< what it computes

  /// "kernel 'adam_step'" or "'product' (matmul)"
  [[nodiscard]] std::string str(const ir::Graph& graph) const;
};

/// The step that computes `value`; one without values where that is neither a kernel nor a matmul.
[[nodiscard]] Stage stage_of(const ir::Graph& graph, ir::ValueId value);

/// What `kernel` reads of the results of `from`.
[[nodiscard]] std::vector<ir::ValueId> read_of(const ir::Graph& graph, const ir::Fusion& kernel,
                                               const Stage& from);

/// Checks every kernel of `graph` that has values arriving. Throws ScheduleError with the rule that
/// is broken.
void check_overlaps(const ir::Graph& graph);

/// `graph` where the steps of `overlap`, of its plan, run one after the other.
[[nodiscard]] ir::Graph without_overlap(ir::Graph graph, const Overlap& overlap);

}  // namespace coconet::sched
