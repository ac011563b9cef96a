// What fuse makes, for the rows of its table and for the tuner.
#pragma once

#include <set>
#include <vector>

#include "sched/transform.h"

namespace coconet::sched {

/// The kernels that can be made around each collective: of it alone, with the computation behind or
/// before it, and of two with the computation between them; and one of all updates and outputs.
[[nodiscard]] std::vector<Step> fuse_candidates(const ir::Graph& graph);

/// Those, and the largest kernels of each kind: every legal kernel holds ops of a largest one.
[[nodiscard]] std::vector<LegalStep> all_fuses(const ir::Graph& graph);

/// The ops of the largest kernels of `kind` that are legal: each legal kernel of that kind is part
/// of one of them.
[[nodiscard]] std::vector<std::set<ir::ValueId>> largest_kernels(const ir::Graph& graph,
                                                                 ir::Fusion::Kind kind);

/// The step that makes a kernel of `kind` of `ops`, under a name that no kernel has:
/// "adam_all_reduce", and "adam_all_reduce_2" where there is one already.
[[nodiscard]] Step fuse_step(const ir::Graph& graph, ir::Fusion::Kind kind,
                             const std::set<ir::ValueId>& ops);

}  // namespace coconet::sched
