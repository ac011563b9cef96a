// From layer to layer.
#include "jit/cache/kernel_cache.h"

#include <utility>

#include "jit/config/log.h"

namespace coconet::jit {

KernelCache::KernelCache(const CacheSettings& settings)
    : written_(settings.directory, settings.mode, settings.limits), slots_(settings.jobs) {
  if (settings.mode == CacheMode::off) return;
  if (settings.directory.empty()) {
    log_warn(
        "There is no directory for the kernel cache: none of COCONET_CACHE_DIR, XDG_CACHE_HOME and "
        "HOME names one. Kernels are compiled again in every process.");
  }
  for (const std::filesystem::path& path : settings.read_only)
    read_only_.emplace_back(path, CacheMode::read_only, Limits{}, CacheRole::cache_path);
}

std::optional<CachedBinary> KernelCache::find(const CacheKey& key) {
  return find_useful(key, {});
}

std::optional<CachedBinary> KernelCache::find_useful(const CacheKey& key, const Recipe& recipe) {
  const auto look = [&](DiskCache& directory) {
    std::optional<CachedBinary> found = directory.find(key);
    if (!found || !recipe.problem) return found;
    const std::string problem = recipe.problem(*found);
    if (problem.empty()) return found;
    directory.discard(key, problem);
    return std::optional<CachedBinary>();
  };
  if (auto found = look(written_)) return found;
  for (DiskCache& directory : read_only_) {
    if (auto found = look(directory)) return found;
  }
  return std::nullopt;
}

bool KernelCache::contains(const CacheKey& key) {
  if (written_.contains(key)) return true;
  for (DiskCache& directory : read_only_) {
    if (directory.contains(key)) return true;
  }
  return false;
}

std::optional<CachedBinary> KernelCache::find_or_lock(const CacheKey& key, const Recipe& recipe,
                                                      Deadline deadline,
                                                      std::optional<Lock>& lock) {
  // An entry that appears while one waits for its lock may be damaged, and then the wait goes on, but not for ever.
  for (int attempt = 0; attempt < 3 && !lock; ++attempt) {
    if (auto found = find_useful(key, recipe)) return found;
    lock = written_.lock(key, deadline);
    if (!lock && !(written_.has_locks() && written_.contains(key))) return std::nullopt;
  }
  // Whoever had the lock before may have stored it.
  return lock ? find_useful(key, recipe) : std::nullopt;
}

KernelCache::Obtained KernelCache::obtain(const CacheKey& key, const Recipe& recipe,
                                          std::chrono::milliseconds patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  std::optional<Lock> lock;
  if (auto found = find_or_lock(key, recipe, deadline, lock)) return {std::move(*found), false};
  Obtained made;
  {
    const CompileSlots::Slot slot = slots_.take(written_, deadline);
    made = {recipe.make(), true};
  }
  publish(key, made.binary);
  return made;
}

void KernelCache::publish(const CacheKey& key, const CachedBinary& binary) {
  if (!written_.publish(key, binary)) ++publish_lost_;
}

std::string KernelCache::remember(const CacheKey& question,
                                  const std::function<std::string()>& ask) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<Lock> lock;
  if (auto known = find_or_lock(question, {}, deadline, lock)) return std::move(known->payload);
  std::string answer = ask();
  (void)written_.publish(question, {answer, {}});
  return answer;
}

CacheEvents KernelCache::events() const {
  CacheEvents all{written_.corrupt(), publish_lost_};
  for (const DiskCache& directory : read_only_) all.corrupt += directory.corrupt();
  return all;
}

}  // namespace coconet::jit
