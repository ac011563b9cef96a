// Slices and chunks of what ranks exchange through mailboxes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/extents.h"
#include "jit/abi/abi.h"
#include "sched/plan.h"

namespace coconet::jit {

/// Slices along `dim` of a whole with `extents`, one for each of `ranks`.
[[nodiscard]] abi::Slices slices_along(const ir::Extents& extents, int dim, int ranks);
/// `count` elements that `owner` owns all of.
[[nodiscard]] abi::Slices slices_of_one(std::int64_t count, int owner);

/// Elements of the chunks that it exchanges.
[[nodiscard]] std::int64_t chunk_elements(const sched::Plan& plan, const sched::KernelStep& step);
/// Bytes of an element in a mailbox, at most.
[[nodiscard]] std::size_t mailed_size(const sched::Plan& plan, const sched::KernelStep& step);

}  // namespace coconet::jit
