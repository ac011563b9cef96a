// Library collectives on GPUs: of ranks with a GPU each, and of ranks that share one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/platform/platform.h"

namespace coconet::jit {

/// All ranks of a group, which one process drives on one GPU: the tensors of all are at hand, and
/// kernels reduce them in rank order.
[[nodiscard]] std::unique_ptr<Collectives> make_launch_collectives(int ranks,
                                                                   const NamedKernels& kernels);

/// Ranks with a GPU each: NCCL's communicator. Collective over the world; each rank passes the
/// group it is in. `step` names what needs it. Throws CommError when there is no NCCL, when two
/// ranks have the same GPU, or when a rank does not come within COCONET_TIMEOUT_S.
[[nodiscard]] std::unique_ptr<Collectives> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                                           const std::string& step);

}  // namespace coconet::jit
