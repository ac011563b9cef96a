// From layer to layer.
#include "jit/cache/kernel_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "jit/config/log.h"

namespace coconet::jit {

CompileSlots::Slot::~Slot() {
  lock_.reset();
  {
    const std::lock_guard lock(slots_.mutex_);
    --slots_.taken_;
  }
  slots_.freed_.notify_one();
}

void CompileSlots::set(int in_process, int on_machine) {
  {
    const std::lock_guard lock(mutex_);
    in_process_ = std::max(1, in_process);
    on_machine_ = std::max(in_process_, on_machine);
  }
  freed_.notify_all();
}

int CompileSlots::in_process() const {
  const std::lock_guard lock(mutex_);
  return in_process_;
}

CompileSlots::Slot CompileSlots::take(DiskCache& disk, Deadline deadline) {
  int on_machine = 0;
  {
    std::unique_lock lock(mutex_);
    (void)freed_.wait_until(lock, deadline, [&] { return taken_ < in_process_; });
    ++taken_;
    on_machine = on_machine_;
  }
  return Slot(*this, disk.lock_compiler(on_machine, deadline));
}

KernelCache::KernelCache(const CacheSettings& settings)
    : written_(directories_.emplace_back(settings.directory, settings.mode, settings.limits)),
      slots_(settings.jobs) {
  if (settings.mode == CacheMode::off) return;
  if (settings.directory.empty()) {
    log_warn(
        "There is no directory for the kernel cache: none of COCONET_CACHE_DIR, XDG_CACHE_HOME and "
        "HOME names one. Kernels are compiled again in every process.");
  }
  for (const std::filesystem::path& path : settings.read_only)
    directories_.emplace_back(path, CacheMode::read_only, Limits{}, CacheRole::cache_path);
}

std::optional<CachedBinary> KernelCache::find_useful(const CacheKey& key, const Problem& problem,
                                                     std::optional<CachedBinary>& rejected) {
  for (DiskCache& directory : directories_) {
    std::optional<CachedBinary> found = directory.find(key);
    if (found && !problem) return found;
    if (!found || (rejected && rejected->payload == found->payload)) continue;
    const std::string wrong = problem(*found);
    if (wrong.empty()) return found;
    log_warn(fmt::format("The cached kernel '{}' is of no use here: {}. It is compiled again.",
                         directory.path_of(key).string(), wrong));
    rejected = std::move(found);
  }
  return std::nullopt;
}

bool KernelCache::contains(const CacheKey& key) {
  return std::ranges::any_of(directories_,
                             [&](DiskCache& directory) { return directory.contains(key); });
}

std::optional<CachedBinary> KernelCache::find_or_lock(const CacheKey& key, const Problem& problem,
                                                      Deadline deadline, Attempt& attempt) {
  // An entry that appears during the wait may be damaged; the wait goes on, but not for ever.
  for (int tries = 0; tries < 3 && !attempt.lock; ++tries) {
    if (auto found = find_useful(key, problem, attempt.rejected)) return found;
    attempt.lock = written_.lock(key, deadline);
    if (!attempt.lock && !(written_.has_locks() && written_.contains(key))) return std::nullopt;
  }
  // Whoever had the lock before may have stored it.
  if (!attempt.lock || !written_.contains(key)) return std::nullopt;
  return find_useful(key, problem, attempt.rejected);
}

std::vector<CachedBinary> KernelCache::obtain(std::span<const CacheKey* const> keys,
                                              const Recipe& recipe,
                                              std::chrono::milliseconds patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  // All processes lock keys in this order, so that no two wait for each other.
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]->digest(); });
  std::vector<CachedBinary> binaries(keys.size());
  std::vector<Attempt> attempts(keys.size());
  std::vector<std::size_t> missing;
  for (const std::size_t i : order) {
    const auto problem = [&](const CachedBinary& binary) { return recipe.problem(i, binary); };
    auto found = find_or_lock(*keys[i], recipe.problem ? Problem(problem) : Problem(), deadline,
                              attempts[i]);
    if (found) {
      binaries[i] = std::move(*found);
    } else {
      missing.push_back(i);
    }
  }
  if (missing.empty()) return binaries;
  CachedBinary made;
  {
    const CompileSlots::Slot slot = slots_.take(written_, deadline);
    made = recipe.make(missing);
  }
  for (const std::size_t i : missing) {
    const std::optional<CachedBinary>& rejected = attempts[i].rejected;
    // Bytes made a second time were not at fault: memory was short, or a driver old.
    if (rejected && rejected->payload != made.payload) {
      ++wrong_;
      written_.discard(*keys[i], *rejected);
    }
    publish(*keys[i], made, !rejected);
    binaries[i] = made;
  }
  return binaries;
}

std::string KernelCache::remember(const CacheKey& question,
                                  const std::function<std::string()>& ask) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Attempt attempt;
  if (auto known = find_or_lock(question, {}, deadline, attempt)) return std::move(known->payload);
  std::string answer = ask();
  (void)written_.publish(question, {answer, {}});
  return answer;
}

CacheEvents KernelCache::events() const {
  CacheEvents all{wrong_, publish_lost_};
  for (const DiskCache& directory : directories_) all.corrupt += directory.corrupt();
  return all;
}

Limits limits_of(const Config& config) {
  return {config.cache_max_size, config.cache_max_files};
}

namespace {

CacheSettings settings_of(const Config& config) {
  CacheSettings settings;
  settings.directory = config.cache_dir;
  settings.mode = config.cache == "off"  ? CacheMode::off
                  : config.cache == "ro" ? CacheMode::read_only
                                         : CacheMode::read_write;
  settings.read_only = config.cache_path;
  settings.limits = limits_of(config);
  settings.jobs = config.jit_jobs > 0
                      ? config.jit_jobs
                      : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return settings;
}

/// Never destroyed: kernels are counted while the process ends.
struct Caches {
  std::mutex mutex;
  std::map<std::filesystem::path, KernelCache> by_directory;
  KernelCache* first = nullptr;
};
/// No thread of a cache outlives what it uses.
struct FinishAtExit {
  explicit FinishAtExit(Caches& finished) : caches(finished) {}
  FinishAtExit(const FinishAtExit&) = delete;
  FinishAtExit& operator=(const FinishAtExit&) = delete;
  ~FinishAtExit() {
    const std::unique_lock lock(caches.mutex, std::try_to_lock);
    if (!lock) return;  // by a thread that opens a cache now, or that a forked process lacks
    for (auto& [directory, cache] : caches.by_directory) cache.finish();
  }
  Caches& caches;
};
Caches& caches() {
  static auto* const made = new Caches;  // NOLINT: see above
  static const FinishAtExit at_exit(*made);
  return *made;
}

}  // namespace

KernelCache& cache_of(const Config& config) {
  const std::lock_guard lock(caches().mutex);
  KernelCache& cache =
      caches().by_directory.try_emplace(config.cache_dir, settings_of(config)).first->second;
  if (caches().first == nullptr) caches().first = &cache;
  return cache;
}

KernelCache& first_cache() {
  {
    const std::lock_guard lock(caches().mutex);
    if (caches().first != nullptr) return *caches().first;
  }
  return cache_of(config());
}

CacheEvents cache_events() {
  const std::lock_guard lock(caches().mutex);
  CacheEvents all;
  for (const auto& [directory, cache] : caches().by_directory) {
    const CacheEvents events = cache.events();
    all.corrupt += events.corrupt;
    all.publish_lost += events.publish_lost;
  }
  return all;
}

}  // namespace coconet::jit
