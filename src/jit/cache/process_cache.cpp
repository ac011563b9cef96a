// From the configuration to a cache.
#include "jit/cache/process_cache.h"

#include <algorithm>
#include <thread>

#include "coconet/config.h"

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
  static KernelCache cache(configured_cache());
  return cache;
}

}  // namespace coconet::jit
