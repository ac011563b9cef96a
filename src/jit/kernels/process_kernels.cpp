// Memory, disk, compiler; and the counters.
#include "jit/kernels/process_kernels.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "coconet/error.h"
#include "jit/cache/memory_cache.h"
#include "jit/cache/process_cache.h"
#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"

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
  (void)process_cache();  // outlives the exit summary
  static const ExitSummary at_exit;
  ++counter;
}

/// Never destroyed: a driver may be gone before this process's static objects.
MemoryCache<StoredKernel>& loaded() {
  static auto* const only = new MemoryCache<StoredKernel>;  // NOLINT: see above
  return *only;
}

void obtain(const Platform& platform, const BinaryRequest& request) {
  const Digest& digest = request.key().digest();
  const std::string& name = request.text().name;
  if (const auto found = find_loaded(platform, digest)) {
    count(counters.hit_memory);
    log_debug("kernel '" + name + "' found in memory: " + hex(digest));
    request.dump(found->binary);
    return;
  }
  const auto load_problem = [&](const CachedBinary& binary) -> std::string {
    try {
      (void)load_and_keep(platform, digest, binary, request.text().entry);
      return {};
    } catch (const BackendError& error) {
      return std::string("it does not load: ") + error.what();
    }
  };
  const BinaryRequest::Obtained obtained = request.obtain(load_problem);
  if (obtained.compiled) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(obtained.compile_time);
    counters.compile_us += static_cast<std::uint64_t>(time.count());
    count(counters.miss);
    log_info("kernel '" + name + "' compiled in " + std::to_string((time.count() + 500) / 1000) +
             " ms: " + obtained.compiled->command);
  } else {
    count(counters.hit_disk);
    log_info("kernel '" + name + "' found in the cache on disk: " + hex(digest));
  }
  request.dump(obtained.binary);
}

std::string failure_of(const Platform& platform, const BinaryRequest& request) {
  try {
    obtain(platform, request);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::shared_ptr<const StoredKernel> find_loaded(const Platform& platform, const Digest& digest) {
  return loaded().find(&platform, digest);
}

std::shared_ptr<const StoredKernel> load_and_keep(const Platform& platform, const Digest& digest,
                                                  CachedBinary binary, const std::string& entry) {
  auto stored = std::make_shared<StoredKernel>();
  stored->kernel = platform.load(binary.payload, entry);
  stored->binary = std::move(binary);
  return loaded().keep(&platform, digest, std::move(stored));
}

void keep_loaded(const Platform& platform, const Digest& digest, StoredKernel kernel) {
  (void)loaded().keep(&platform, digest, std::make_shared<StoredKernel>(std::move(kernel)));
}

std::vector<std::string> find_or_compile(const Platform& platform,
                                         const std::vector<const BinaryRequest*>& requests) {
  std::vector<std::string> failures(requests.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (find_loaded(platform, requests[i]->key().digest()) != nullptr) {
      failures[i] = failure_of(platform, *requests[i]);
    } else {  // also when it is stored, as it may be damaged
      missing.push_back(i);
    }
  }
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < missing.size(); i = next++)
      failures[missing[i]] = failure_of(platform, *requests[missing[i]]);
  };
  const std::size_t jobs =
      std::min(missing.size(), static_cast<std::size_t>(process_cache().slots().in_process()));
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < jobs) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: fewer compilers at once
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return failures;
}

void count_kernel(Origin origin) {
  count(origin == Origin::memory ? counters.hit_memory : counters.hit_peer);
}

std::string describe(const CacheCounters& cache) {
  const auto text = [](std::uint64_t number) { return std::to_string(number); };
  std::string line = "kernel cache: " + text(cache.hit_memory) + " in memory, " +
                     text(cache.hit_disk) + " on disk, " + text(cache.hit_peer) + " from a peer, " +
                     text(cache.miss) + " compiled";
  if (cache.miss > 0)
    line += " in " + text(static_cast<std::uint64_t>(cache.compile_ms + 0.5)) + " ms";
  if (cache.corrupt > 0) line += ", " + text(cache.corrupt) + " damaged";
  if (cache.publish_lost > 0) line += ", " + text(cache.publish_lost) + " stored by others first";
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
