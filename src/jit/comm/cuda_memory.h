// Peer memory on GPUs: a block on every rank's GPU that all ranks map.
#pragma once

#include <cstddef>
#include <memory>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// Collective: `bytes` of zeroed memory on every rank's GPU, reachable by kernels of all of them. Threads of one
/// process use each other's addresses, processes map each other's memory. Throws CommError naming the pair of ranks whose
/// GPUs cannot reach each other, BackendError when there is not enough memory.
[[nodiscard]] std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes);

}  // namespace coconet::jit
