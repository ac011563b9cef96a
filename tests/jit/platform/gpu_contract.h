// What kernels that ship promise of their machine code, checked and measured without a GPU.
#pragma once

#include <string>
#include <vector>

#include "jit/platform/gpu_kernels.h"

namespace coconet::test {

/// How lines of `contract_of` begin.
inline constexpr const char* fault_mark = "fault: ";
inline constexpr const char* row_mark = "row: ";

/// The kernels of a binary against their contract: a line for each fault, and one for each kernel's
/// row in docs/gpu-kernels.md. Always:
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

/// The columns of a row.
inline constexpr const char* row_header =
    "| GPU | program under schedule in dtype | kernel | registers | stack | blocks | fences | "
    "instructions an element | accesses of a main loop | KiB in flight |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n";

/// Where `found` differs from the row `expected` by more than 5 % in a number, or in anything else;
/// empty where it does not.
[[nodiscard]] std::string drift_of(const std::string& found, const std::string& expected);

}  // namespace coconet::test
