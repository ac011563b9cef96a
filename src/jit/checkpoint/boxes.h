// Parts of tensors as boxes of indices: what two have in common, and whether some make up a whole.
#pragma once

#include <functional>
#include <span>

#include "ir/extents.h"

namespace coconet::jit {

/// Calls visit(place in a, place in b, elements) for every run of elements that both boxes have,
/// contiguous in each of them, in row-major order.
void for_each_common_run(
    const ir::Part& a, const ir::Part& b,
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit);

/// Whether `parts`, none of them empty or beyond `whole`, have each of its elements exactly once.
[[nodiscard]] bool is_tiled(const ir::Extents& whole, std::span<const ir::Part> parts);

}  // namespace coconet::jit
