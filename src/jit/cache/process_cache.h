// The cache that this process's configuration describes.
#pragma once

#include "jit/cache/kernel_cache.h"

namespace coconet::jit {

/// Opened at the first call, as COCONET_CACHE, _CACHE_DIR, _CACHE_PATH, _CACHE_MAX_SIZE, _CACHE_MAX_FILES and _JIT_JOBS
/// say. Throws ConfigError for a malformed variable.
[[nodiscard]] KernelCache& process_cache();

/// Those settings.
[[nodiscard]] CacheSettings configured_cache();

}  // namespace coconet::jit
