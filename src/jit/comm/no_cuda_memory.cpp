// Peer memory on GPUs in a build without CUDA.
#include "coconet/error.h"
#include "jit/comm/cuda_memory.h"

namespace coconet::jit {

std::shared_ptr<PeerMemory> allocate_on_devices(Comm&, std::size_t, bool) {
  throw InternalError("a build without CUDA was asked for memory of a GPU");
}

void require_nvlink(Comm&, std::span<const int>, std::string_view) {
  throw InternalError("a build without CUDA was asked what connects GPUs");
}

}  // namespace coconet::jit
