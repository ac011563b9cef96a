// Peer memory on GPUs: a block on every rank's GPU that all ranks map.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// Collective: `bytes` of zeroed memory on every rank's GPU, reachable by kernels of those on its node. Threads of one
/// process use each other's addresses, processes map each other's memory. Throws CommError naming the pair of ranks whose
/// GPUs cannot reach each other, BackendError when there is not enough memory. `multicast` asks for a multicast pointer,
/// too; where there can be none, the memory says why.
[[nodiscard]] std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes,
                                                              bool multicast = false);

/// Collective: throws BackendError on every rank unless NVLink connects every rank's GPU with the other GPUs of its
/// `group`. `kernel` is what needs that: it has the protocol ll128.
void require_nvlink(Comm& comm, std::span<const int> group, std::string_view kernel);

}  // namespace coconet::jit
