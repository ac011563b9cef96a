// Where loaded kernels come from: this process's memory, the disk cache, another rank, or the compiler.
#pragma once

#include <memory>

#include "coconet/executable.h"
#include "jit/backend/backend.h"
#include "jit/codegen/codegen.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

/// Collective: the kernel of `text`, loaded on every rank. Rank 0 finds or compiles it, once for all ranks; where nodes need
/// different binaries, the first rank of each node does, once for that node. Throws
/// CompileError on every rank when it does not compile: with the command, the compiler's words, the op behind the
/// first line that is wrong, and the path of the dumped source.
[[nodiscard]] std::shared_ptr<const Kernel> obtain_kernel(Comm& comm, const Backend& backend,
                                                          const KernelText& text);

/// Makes `kernel` what `obtain_kernel` finds in memory for `text`, unless it has one already: for kernels that were
/// compiled otherwise, such as many in one binary. For worlds of this process only, as there are no bytes to send.
void keep_kernel(const Backend& backend, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel);

/// Where this process's kernels came from so far.
[[nodiscard]] CacheCounters cache_counters();

}  // namespace coconet::jit
