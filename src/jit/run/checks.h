// What COCONET_CHECK=1 looks at before every step: that ranks have alike what they must have alike,
// and that no rank's memory is another one's.
#pragma once

#include <functional>
#include <span>

#include "jit/run/bound.h"

namespace coconet::jit {

/// Copies all of a tensor's elements, after all steps so far.
using ReadTensor = std::function<void(sched::BufferId id, std::span<std::byte> to)>;

/// Collective, before a step of `bound`, all of whose tensors have memory. Throws the same on every
/// rank: CommError naming the first input or state whose elements differ between ranks that hold
/// the same part of it, which ranks, and where; BackendError where ranks that are threads of one
/// process have memory in common that one of them writes, or an element
/// names no index of the dimension that it is an index of.
void check_step(Bound& bound, const ReadTensor& read);

}  // namespace coconet::jit
