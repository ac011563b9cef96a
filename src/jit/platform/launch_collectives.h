// Collectives by this library's own kernels, of ranks that share a queue.
#pragma once

#include <memory>

#include "jit/platform/platform.h"

namespace coconet::jit {

/// Of all ranks of a group, which one process drives on one GPU: the tensors of all are at hand,
/// and kernels reduce them in rank order.
[[nodiscard]] std::unique_ptr<Collectives> make_launch_collectives(int ranks,
                                                                   const NamedKernels& kernels);

}  // namespace coconet::jit
