// What may be done instead of a kernel that breaks a rule: proposals, of which those are said that
// turn out to be legal (refusal.h).
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "sched/refusal.h"

namespace coconet::sched {

/// What would make a kernel of `members`, of which `reader` reads `awaited`, wait for nothing of
/// its own.
[[nodiscard]] std::vector<Remedy> remedies_of_cycle(const ir::Graph& graph,
                                                    const std::set<ir::ValueId>& members,
                                                    ir::ValueId awaited, ir::ValueId reader);

/// What would make a kernel of `kind` of `ops`, which make one of another.
[[nodiscard]] std::vector<Remedy> remedies_of_kind(const ir::Graph& graph, std::string_view kind,
                                                   const std::set<ir::ValueId>& ops);

}  // namespace coconet::sched
