// Random walks over legal schedules.
#pragma once

#include "coconet/coconet.h"
#include "genes.h"

namespace coconet::test {

/// A schedule of up to 8 steps that is legal for `program`, with random knobs; all additions
/// between ranks are in the order of the ranks when it must be `in_rank_order`.
[[nodiscard]] Schedule random_schedule(const Program& program, Genes& genes, bool in_rank_order);

}  // namespace coconet::test
