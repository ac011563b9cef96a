// What every world checks of groups and of the arguments of their collectives.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// Every rank's group, by rank. Collective. Throws the same CommError on every rank unless each
/// rank is in the group that it passes and all of a group's ranks pass that group.
[[nodiscard]] std::vector<std::vector<int>> agree_on_groups(Comm& comm,
                                                            const std::vector<int>& mine);

/// Where each rank's block starts, and at the end the number of elements of all blocks.
[[nodiscard]] std::vector<std::size_t> block_starts(std::span<const std::size_t> counts);

/// Throws InternalError unless `call` has one count for each of the group's `ranks`, where it has blocks, and its root is
/// one of them.
void require_sane(const CollectiveCall& call, int ranks);

/// For calls whose op is none of the collectives.
[[noreturn]] void throw_unknown(const CollectiveCall& call);

}  // namespace coconet::jit
