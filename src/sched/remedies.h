// What may be done instead of a kernel that breaks a rule: proposals, of which those are said that
// turn out to be legal (refusal.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sched/refusal.h"

namespace coconet::sched {

/// "an all_gather"
[[nodiscard]] std::string named(ir::Op op);

/// The same ops in a kernel of each other kind than `kind`.
[[nodiscard]] std::vector<Remedy> other_kinds(ir::Fusion::Kind kind);

/// What would make a kernel of `members`, of which `reader` reads `awaited`, wait for nothing of
/// its own.
[[nodiscard]] std::vector<Remedy> remedies_of_cycle(const ir::Graph& graph,
                                                    const std::set<ir::ValueId>& members,
                                                    ir::ValueId awaited, ir::ValueId reader);

/// What a kernel of `kind` that has no `missing`, and perhaps no other half either, may be.
[[nodiscard]] std::vector<Remedy> remedies_of_half(const ir::Graph& graph, ir::Fusion::Kind kind,
                                                   ir::Op missing,
                                                   std::optional<ir::Op> also_missing);

/// Why no `missing` can be named: what there is of it.
[[nodiscard]] std::string where_is(const ir::Graph& graph, ir::Op missing);

}  // namespace coconet::sched
