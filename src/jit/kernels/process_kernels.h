// The kernels that this process has loaded, and where they came from.
#pragma once

#include <memory>
#include <span>
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
/// Loads `binary` and keeps it. Throws BackendError when it cannot be loaded.
void load_and_keep(const Platform& platform, const BinaryRequest& request, CachedBinary binary);
/// Keeps one that is loaded.
void keep_loaded(const Platform& platform, const Digest& digest, StoredKernel kernel);

/// Finds each of `requests` in memory or on disk, or compiles it, and keeps it. The first failure's
/// text; empty when all are there.
[[nodiscard]] std::string find_or_compile(const Platform& platform,
                                          std::span<const BinaryRequest* const> requests);

/// Where kernels came from. Threads may count at once.
enum class Origin : std::uint8_t { memory, peer };
void count_kernel(Origin origin);

}  // namespace coconet::jit
