// The kernels of this process: those that it has loaded, and how it comes by others without other ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coconet/executable.h"
#include "jit/kernels/binary_request.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// A loaded kernel, with its bytes for ranks that lack them.
struct StoredKernel {
  CachedBinary binary;
  std::shared_ptr<const Kernel> kernel;
};

/// What this process has under `digest`; null when it has nothing.
[[nodiscard]] std::shared_ptr<const StoredKernel> find_loaded(const Platform& platform,
                                                              const Digest& digest);
/// Loads `binary` and keeps it; returns what is kept, which another thread may have loaded. Throws BackendError when it
/// cannot be loaded.
std::shared_ptr<const StoredKernel> load_and_keep(const Platform& platform, const Digest& digest,
                                                  CachedBinary binary, const std::string& entry);
/// Keeps one that is loaded.
void keep_loaded(const Platform& platform, const Digest& digest, StoredKernel kernel);

/// Finds each of `requests` in memory or on disk, or compiles it, several at once as far as slots allow, and keeps
/// it. For each an empty text, or why there is no kernel.
[[nodiscard]] std::vector<std::string> find_or_compile(
    const Platform& platform, const std::vector<const BinaryRequest*>& requests);

/// Where kernels came from. Threads may count at once.
enum class Origin : std::uint8_t { memory, peer };
void count_kernel(Origin origin);

}  // namespace coconet::jit
