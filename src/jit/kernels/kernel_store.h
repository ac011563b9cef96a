// Finding kernels: in this process's memory, on disk, on another rank, or by the compiler.
#pragma once

#include "coconet/executable.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Collective: the kernels of `texts`, loaded on every rank. One rank finds or compiles a binary
/// for all that need the same; compilations are spread over the ranks. Throws CompileError on every
/// rank when one does not compile, as `BinaryRequest::compile` does.
[[nodiscard]] std::vector<std::shared_ptr<const Kernel>> obtain_kernels(
    Comm& comm, const Platform& platform, std::span<const KernelText> texts, const Config& config);

/// Makes `kernel`, which was compiled otherwise, what `obtain_kernels` finds in memory for `text`.
/// For worlds of this process only, as there are no bytes to send.
void keep_kernel(const Platform& platform, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel);

/// Where this process's kernels came from so far.
[[nodiscard]] CacheCounters cache_counters();
/// A line for people.
[[nodiscard]] std::string describe(const CacheCounters& cache);

}  // namespace coconet::jit
