// Maps what the ranks of a node allocate; library collectives all go through that.
#include "jit/comm/worlds/process_comm.h"

#include "jit/comm/memory/peer_memory.h"

namespace coconet::jit {

std::shared_ptr<Collectives> ProcessComm::make_large(const std::vector<int>&,
                                                     const std::shared_ptr<Barrier>&) {
  return nullptr;
}

std::shared_ptr<PeerMemory> ProcessComm::map(std::size_t bytes) {
  return map_across_processes(rank(), numbers(), bytes,
                              [this](std::string_view mine) { return all_gather(mine); });
}

}  // namespace coconet::jit
