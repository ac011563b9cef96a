// Peer memory on GPUs: a block on every rank's GPU that all ranks map.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// `Platform::allocate_peer` and `Platform::require_whole_lines`: threads of one process use each
/// other's addresses, processes map each other's memory; what NVLink connects sees whole lines.
[[nodiscard]] std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes,
                                                              bool multicast);
void require_nvlink(Comm& comm, std::span<const int> group, std::string_view kernel);

}  // namespace coconet::jit
