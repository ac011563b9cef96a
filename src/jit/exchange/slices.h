// Slices and chunks of what ranks exchange through mailboxes, and the memory that these take.
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

/// What the mailboxes of a kernel take of a rank's memory at most, where no knob says otherwise. On
/// 8 ranks with `ring` and `simple` all blocks' chunks for a neighbour are then 1 MiB, and as much
/// in the other slots: what a link of 450 GB/s carries while chunks are handed over, for 2 us each.
constexpr std::int64_t mailbox_budget = 32 << 20;

/// Elements of the chunks that the `blocks` blocks of `step` exchange on `ranks` ranks: as the knob
/// says, or as many as leave the mailboxes within the budget, but no less than is worth a signal.
[[nodiscard]] std::int64_t chunk_elements(const sched::Plan& plan, const sched::KernelStep& step,
                                          int ranks, int blocks);
/// Bytes of an element in a mailbox, at most.
[[nodiscard]] std::size_t mailed_size(const sched::Plan& plan, const sched::KernelStep& step);
/// Bytes of the mailboxes of each rank; 0 where `step` has none.
[[nodiscard]] std::int64_t mailbox_bytes(const sched::Plan& plan, const sched::KernelStep& step,
                                         int ranks, int blocks);
/// Most blocks whose mailboxes are within the budget, and at least one.
[[nodiscard]] int blocks_in_budget(const sched::Plan& plan, const sched::KernelStep& step,
                                   int ranks);

}  // namespace coconet::jit
