// What kernels that ship promise of their machine code, checked without a GPU.
#pragma once

#include <string>

#include "jit/platform/gpu_kernels.h"

namespace coconet::test {

/// The kernels of a binary against their contract (docs/gpu-kernels.md says why): a line for each
/// that breaks it. Always:
///   - a stack only where chunks go through mailboxes;
///   - at least two blocks of 256 threads on a multiprocessor.
/// With nvdisasm, for sm_90 and sm_100, and for all but mailboxes:
///   - no access of local memory;
///   - at most one fence of the system for each barrier of ranks in the text;
///   - main loops access whole vectors, each by one instruction: 16 bytes, or as many as the
///     narrowest tensor has in the lanes of one vector of the widest;
///   - the loads that a GPU's resident threads do before they use one are at least bandwidth times
///     latency, on sm_90 in kernels that run over more than a few elements: of the memory, or of
///     the link where ranks read and write each other's tensors.
[[nodiscard]] std::string contract_of(const GpuBinary& binary);

}  // namespace coconet::test
