// From the configuration to a cache.
#include "jit/cache/process_cache.h"

#include <algorithm>
#include <thread>

#include "coconet/config.h"
#include "jit/config/log.h"

namespace coconet::jit {

CacheSettings configured_cache() {
  const Config& config = coconet::config();
  CacheSettings settings;
  settings.directory = config.cache_dir;
  settings.mode = config.cache == "off"  ? CacheMode::off
                  : config.cache == "ro" ? CacheMode::read_only
                                         : CacheMode::read_write;
  settings.read_only = config.cache_path;
  settings.limits = {config.cache_max_size, config.cache_max_files};
  settings.jobs = config.jit_jobs > 0
                      ? config.jit_jobs
                      : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return settings;
}

KernelCache& process_cache() {
  static KernelCache cache = [] {
    CacheSettings settings = configured_cache();
    if (settings.mode != CacheMode::off && settings.directory.empty()) {
      log_warn(
          "There is no directory for the kernel cache: none of COCONET_CACHE_DIR, XDG_CACHE_HOME "
          "and HOME names "
          "one. Kernels are compiled again in every process.");
    }
    return KernelCache(settings);
  }();
  return cache;
}

}  // namespace coconet::jit
