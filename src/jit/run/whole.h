// Tensors as a whole: what each rank's part of one is, and putting parts together.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "jit/bind/tensors.h"

namespace coconet::jit {

/// Copies elements of `bytes` each between a whole tensor with `global` extents and `part` of it,
/// both row-major.
void copy_from_whole(const std::byte* whole, const ir::Extents& global, const ir::Part& part,
                     std::size_t bytes, std::byte* to);
void copy_to_whole(const std::byte* from, const ir::Extents& global, const ir::Part& part,
                   std::size_t bytes, std::byte* whole);

/// Collective unless every rank has all of `buffer`: the whole tensor, on every rank, of which this
/// one has `mine`. Where it is local along an axis, that of the ranks with this one's coordinate.
[[nodiscard]] std::vector<std::byte> gather_whole(Comm& comm, const RankPlan& plan,
                                                  sched::BufferId buffer,
                                                  std::vector<std::byte> mine);

}  // namespace coconet::jit
