// Cache lines that travel between ranks that share memory: what a rank reads that another has
// written, and what it writes that another has read, is in the other one's caches.
#pragma once

#include <functional>
#include <vector>

#include "sched/plan.h"

namespace coconet::sched {

/// Bytes of a buffer on a rank.
using BytesOf = std::function<double(BufferId)>;

/// Bytes that every step of `plan` moves between the caches of two ranks, on a rank; by step. In
/// runs that follow each other: what one leaves in which caches the next one finds. Inputs stay
/// unchanged. `moved_for` says what a rank reads or writes of other ranks' memory for a collective.
[[nodiscard]] std::vector<double> moved_lines(const Plan& plan, const BytesOf& bytes_of,
                                              const std::function<double(ir::ValueId)>& moved_for);

}  // namespace coconet::sched
