// What every world checks of groups and of the arguments of their collectives.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// Every rank's group, by rank. Collective. Throws the same CommError on every rank unless each
/// rank is in the group that it passes and all of a group's ranks pass that group.
[[nodiscard]] std::vector<std::vector<int>> agree_on_groups(Comm& comm,
                                                            const std::vector<int>& mine);

/// Throws InternalError unless there is one count per rank of the group. Returns where each rank's
/// block starts, and at the end the number of elements of all blocks.
[[nodiscard]] std::vector<std::size_t> block_starts(const Group& group, std::string_view call,
                                                    std::span<const std::size_t> counts);

/// Whether the group has a rank at `position`, which a shift may come from or go to.
[[nodiscard]] bool has_position(const Group& group, int position);

/// Throws InternalError unless `root` is a rank of the group.
void require_root(const Group& group, std::string_view call, int root);

}  // namespace coconet::jit
