// Library collectives on GPUs, as work of a queue.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/program.h"
#include "jit/comm/collectives/collectives.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// A reduction that a group must be able to do.
struct WantedReduction {
  DType dtype;
  Reduction reduction;
};

/// Ranks that one process drives on one GPU: the tensors of all are at hand, and kernels reduce them in rank order.
/// Collective over the world, like the compilation of a kernel.
[[nodiscard]] std::unique_ptr<Collectives> make_launch_group(
    Comm& comm, const Platform& platform, std::vector<int> ranks,
    const std::vector<WantedReduction>& wanted);

/// Ranks with a GPU each: NCCL's communicator. Collective over the world; each rank passes the group it is in. `step`
/// names what needs it. Throws CommError when there is no NCCL, when two ranks have the same GPU, or when a rank does not
/// come within COCONET_TIMEOUT_S.
[[nodiscard]] std::unique_ptr<Collectives> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                                           const std::string& step);

}  // namespace coconet::jit
