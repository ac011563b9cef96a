// Memory, then disk or compiler; and the counters.
#include "jit/kernels/process_kernels.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>

#include "coconet/error.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/memory_cache.h"
#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/obtain_binaries.h"

namespace coconet::jit {

namespace {

struct Counters {
  std::atomic<std::uint64_t> hit_memory{0}, hit_disk{0}, hit_peer{0}, miss{0}, compile_us{0};
};
Counters counters;

/// Says at the end of the process where its kernels came from.
struct ExitSummary {
  ExitSummary() = default;
  ExitSummary(const ExitSummary&) = delete;
  ExitSummary& operator=(const ExitSummary&) = delete;
  ~ExitSummary() {
    if (log_enabled(LogLevel::info)) log_info(describe(cache_counters()));
  }
};

void count(std::atomic<std::uint64_t>& counter) {
  (void)process_cache();  // outlives the summary
  static const ExitSummary at_exit;
  ++counter;
}

/// Never destroyed: a driver may be gone before this process's static objects.
MemoryCache<StoredKernel>& loaded() {
  static auto* const only = new MemoryCache<StoredKernel>;  // NOLINT: see above
  return *only;
}

void count_and_log(const BinaryRequest& request, const ObtainedBinary& obtained) {
  const std::string& name = request.text().name;
  if (!obtained.was_compiled()) {
    count(counters.hit_disk);
    log_info(fmt::format("kernel '{}' found in the cache on disk: {}", name,
                         hex(request.key().digest())));
    return;
  }
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(obtained.compile_time);
  counters.compile_us += static_cast<std::uint64_t>(time.count());
  count(counters.miss);
  log_info(fmt::format("kernel '{}' compiled in {} ms: {}", name, (time.count() + 500) / 1000,
                       obtained.command));
}

}  // namespace

std::shared_ptr<const StoredKernel> find_loaded(const Platform& platform, const Digest& digest) {
  return loaded().find(&platform, digest);
}

void load_and_keep(const Platform& platform, const BinaryRequest& request, CachedBinary binary) {
  auto kernel = platform.load(binary.payload, request.text().entry);
  keep_loaded(platform, request.key().digest(), {std::move(binary), std::move(kernel)});
}

void keep_loaded(const Platform& platform, const Digest& digest, StoredKernel kernel) {
  (void)loaded().keep(&platform, digest, std::make_shared<StoredKernel>(std::move(kernel)));
}

std::string find_or_compile(const Platform& platform,
                            std::span<const BinaryRequest* const> requests) {
  std::vector<const BinaryRequest*> missing;
  for (const BinaryRequest* request : requests) {
    const auto found = find_loaded(platform, request->key().digest());
    if (found == nullptr) {
      missing.push_back(request);
      continue;
    }
    count(counters.hit_memory);
    log_debug(fmt::format("kernel '{}' found in memory: {}", request->text().name,
                          hex(request->key().digest())));
    request->dump(found->binary);
  }
  const auto load_problem = [&](const BinaryRequest& request,
                                const CachedBinary& binary) -> std::string {
    try {
      load_and_keep(platform, request, binary);
      return {};
    } catch (const BackendError& error) {
      return std::string("it does not load: ") + error.what();
    }
  };
  const std::vector<ObtainedBinary> obtained = obtain_binaries(missing, load_problem);
  std::string failure;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    try {
      if (obtained[i].failure) std::rethrow_exception(obtained[i].failure);
      count_and_log(*missing[i], obtained[i]);
      missing[i]->dump(obtained[i].binary);
    } catch (const std::exception& error) {
      if (failure.empty()) failure = error.what();
    }
  }
  return failure;
}

void count_kernel(Origin origin) {
  count(origin == Origin::memory ? counters.hit_memory : counters.hit_peer);
}

std::string describe(const CacheCounters& cache) {
  std::string line =
      fmt::format("kernel cache: {} in memory, {} on disk, {} from a peer, {} compiled",
                  cache.hit_memory, cache.hit_disk, cache.hit_peer, cache.miss);
  if (cache.miss > 0)
    line += fmt::format(" in {} ms", static_cast<std::uint64_t>(cache.compile_ms + 0.5));
  if (cache.corrupt > 0) line += fmt::format(", {} damaged", cache.corrupt);
  if (cache.publish_lost > 0)
    line += fmt::format(", {} stored by others first", cache.publish_lost);
  return line;
}

CacheCounters cache_counters() {
  const CacheEvents events = process_cache().events();
  return {counters.hit_memory,
          counters.hit_disk,
          counters.hit_peer,
          counters.miss,
          static_cast<double>(counters.compile_us) / 1e3,
          events.corrupt,
          events.publish_lost};
}

}  // namespace coconet::jit
