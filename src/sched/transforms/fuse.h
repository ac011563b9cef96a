// What fuse makes, for the rows of its table and for the tuner.
#pragma once

#include <set>
#include <vector>

#include "sched/transform.h"

namespace coconet::sched {

/// The kernels that can be made around each collective: of it alone, with the computation behind or
/// before it, and of two with the computation between them; and one of all updates and outputs.
[[nodiscard]] std::vector<Step> fuse_candidates(const ir::Graph& graph);

/// The step that makes a kernel of `kind` of `ops`, under a name that no kernel has:
/// "adam_all_reduce", and "adam_all_reduce_2" where there is one already.
[[nodiscard]] Step fuse_step(const ir::Graph& graph, ir::Fusion::Kind kind,
                             const std::set<ir::ValueId>& ops);

}  // namespace coconet::sched
