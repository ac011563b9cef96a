// Which ops run together: the kernels that the schedule made, one step per library collective,
// matmul and reduction, and for the rest the fewest kernels that store no value which only one
// kernel reads.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "ir/graph.h"

namespace coconet::sched {

struct Group {
  enum class Kind : std::uint8_t { computation, reduction, collective, library, matmul };
  Kind kind = Kind::computation;
  std::vector<ir::ValueId> values;     ///< sorted; updates included
  const ir::Fusion* fusion = nullptr;  ///< the schedule's kernel, or null
  bool beside_previous = false;        ///< it runs at once with the group before it
};

struct Groups {
  Indexed<Group> groups;  ///< in execution order
  Indexed<int> of;        ///< by value: its group, or -1 for leaves and numbers
};

/// Groups the values of `graph`, which has no dead ones and no `overwritten_reads`, and orders the
/// groups: after what they read, and after every reader of the old value of a state that they
/// write.
[[nodiscard]] Groups make_groups(const ir::Graph& graph);

/// By state, what reads its old value but cannot come before the group that overwrites it: because
/// it needs that group's results, because two groups overwrite what the other reads, or because
/// other ranks overwrite what it reads from inside the same kernel.
[[nodiscard]] std::map<ir::ValueId, std::set<ir::ValueId>> overwritten_reads(
    const ir::Graph& graph);

/// Whether `value` is of a collective along an axis of one rank, which changes nothing.
[[nodiscard]] bool is_over_one_rank(const ir::Graph& graph, ir::ValueId value);

/// The value that update `id` stores needs no copy of its own: it is produced by a collective that
/// can write the state's memory, which is not its operand, and nothing else reads it.
[[nodiscard]] bool writes_through(const ir::Graph& graph, ir::ValueId id);

}  // namespace coconet::sched
