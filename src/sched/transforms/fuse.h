// What fuse makes, for the rows of its table and for the tuner.
#pragma once

#include <vector>

#include "sched/transform.h"

namespace coconet::sched {

/// The kernels that can be made around each collective: of it alone, with the computation behind or
/// before it, and of two with the computation between them; and one of all updates and outputs.
[[nodiscard]] std::vector<Step> fuse_candidates(const ir::Graph& graph);

}  // namespace coconet::sched
