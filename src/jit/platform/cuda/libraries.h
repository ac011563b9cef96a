// What NVIDIA's libraries do for the CUDA platform: collectives by NCCL, matmuls by cuBLASLt. In a
// build without a library's header, no_nccl.cpp and no_cublas.cpp are in its place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/platform/cuda/device.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Ranks with a GPU each: NCCL's communicator. Collective over the world; each rank passes the
/// group it is in. `step` names what needs it. Throws CommError when there is no NCCL, when two
/// ranks have the same GPU, or when a rank does not come within COCONET_TIMEOUT_S.
[[nodiscard]] std::unique_ptr<Collectives> make_nccl_group(Comm& comm, std::vector<int> ranks,
                                                           const std::string& step);

/// Throws CommError unless `communicator`, the application's, holds the ranks of `comm` in its
/// order, on this rank's GPU.
void require_nccl_of(Comm& comm, void* communicator);

/// Whether NCCL takes memory that it is told of beforehand, its windows; loads it. Since 2.27.
[[nodiscard]] bool nccl_has_windows();

/// On `device`, with memory of `platform`. Throws BackendError when cuBLASLt is not there.
[[nodiscard]] std::unique_ptr<LibraryMatmul> make_cublas_matmul(const Platform& platform,
                                                                const Device& device,
                                                                MatmulShape shape);

}  // namespace coconet::jit
