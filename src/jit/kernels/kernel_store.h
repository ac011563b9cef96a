// Where loaded kernels come from: this process's memory, the cache on disk, another rank, or the
// compiler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// Collective: the kernels of `texts`, loaded on every rank. Each binary is found or compiled by
/// one rank and sent to those that lack it; compilations are spread over the ranks. Ranks whose
/// processors, GPUs or compilers differ need different binaries. Throws CompileError on every rank
/// when one does not compile: with the command, the compiler's words, the op behind the first line
/// that is wrong, and the path of the dumped source.
[[nodiscard]] std::vector<std::shared_ptr<const Kernel>> obtain_kernels(
    Comm& comm, const Platform& platform, std::span<const KernelText> texts);
/// The same for one.
[[nodiscard]] std::shared_ptr<const Kernel> obtain_kernel(Comm& comm, const Platform& platform,
                                                          const KernelText& text);

/// Makes `kernel` what `obtain_kernel` finds in memory for `text`, unless it has one already: for
/// kernels that were compiled otherwise, such as many in one binary. For worlds of this process
/// only, as there are no bytes to send.
void keep_kernel(const Platform& platform, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel);

/// Where this process's kernels came from so far.
[[nodiscard]] CacheCounters cache_counters();
/// A line for people.
[[nodiscard]] std::string describe(const CacheCounters& cache);

}  // namespace coconet::jit
