// Each binary once for all ranks: keys are gathered, leaders find or compile, bytes are sent.
#include "jit/kernels/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/indexed.h"
#include "jit/cache/memory_cache.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/nodes.h"
#include "jit/config/log.h"
#include "jit/config/own_process.h"
#include "jit/kernels/election.h"
#include "jit/kernels/obtain_binaries.h"

namespace coconet::jit {
namespace {

/// A loaded kernel, with its bytes for ranks that lack them.
struct StoredKernel {
  CachedBinary binary;
  std::shared_ptr<const Kernel> kernel;
};

/// Where kernels came from, in all threads.
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
    if (process.is_this() && log_enabled(LogLevel::info)) log_info(describe(cache_counters()));
  }
  OwnProcess process;
};

void count(std::atomic<std::uint64_t>& counter) {
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

/// What this process has under `digest`; null when it has nothing.
std::shared_ptr<const StoredKernel> find_loaded(const Platform& platform, const Digest& digest) {
  return loaded().find(&platform, digest);
}

void keep_loaded(const Platform& platform, const Digest& digest, StoredKernel kernel) {
  (void)loaded().keep(&platform, digest, std::make_shared<StoredKernel>(std::move(kernel)));
}

/// Throws BackendError when `binary` cannot be loaded.
void load_and_keep(const Platform& platform, const BinaryRequest& request, CachedBinary binary) {
  auto kernel = platform.load(binary.payload, request.text().entry, request.dump(binary));
  keep_loaded(platform, request.key().digest(), {std::move(binary), std::move(kernel)});
}

/// Finds or compiles, and keeps, each of `requests`. The first failure's text; empty: none.
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
      return fmt::format("it does not load: {}", error.what());
    }
  };
  const std::vector<ObtainedBinary> obtained = obtain_binaries(missing, load_problem);
  std::string failure;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    try {
      if (obtained[i].failure) std::rethrow_exception(obtained[i].failure);
      count_and_log(*missing[i], obtained[i]);
    } catch (...) {
      if (failure.empty()) failure = message_of(std::current_exception());
    }
  }
  return failure;
}

/// What a rank tells the others before anything is compiled.
struct Offer {
  std::string directory;  ///< names the cache directory that it writes; empty: none
  std::string cores;      ///< that it may run on
  int jobs = 0;           ///< COCONET_JIT_JOBS
  std::vector<Need> needs;
};

constexpr std::size_t need_bytes = sizeof(Digest) + 1;
/// How the message of a rank that failed begins; others begin with a digest or a length.
constexpr std::string_view failed = "failed: ";

void append(std::string& bytes, std::string_view part) {
  const std::uint64_t size = part.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += part;
}

std::string_view take(std::string_view& bytes) {
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const std::string_view part = bytes.substr(sizeof(size), size);
  bytes.remove_prefix(sizeof(size) + size);
  return part;
}

Digest digest_at(std::string_view bytes) {
  Digest digest{};
  std::memcpy(digest.data(), bytes.data(), sizeof(digest));
  return digest;
}

std::string encode(const Offer& offer) {
  std::string bytes;
  append(bytes, offer.directory);
  append(bytes, offer.cores);
  append(bytes, std::to_string(offer.jobs));
  for (const Need& need : offer.needs) {
    bytes += bytes_of(need.digest);
    bytes += static_cast<char>(need.reach);
  }
  return bytes;
}

Offer decode(std::string_view bytes) {
  Offer offer;
  offer.directory = take(bytes);
  offer.cores = take(bytes);
  offer.jobs = std::stoi(std::string(take(bytes)));
  for (; bytes.size() >= need_bytes; bytes.remove_prefix(need_bytes))
    offer.needs.push_back({digest_at(bytes), static_cast<Reach>(bytes[sizeof(Digest)])});
  return offer;
}

/// One collective search for the kernels of some texts.
class CollectiveSearch {
 public:
  CollectiveSearch(Comm& comm, const Platform& platform, const Config& config)
      : comm_(comm), platform_(platform), config_(config), cache_(cache_of(config)) {}

  std::vector<std::shared_ptr<const Kernel>> run(std::span<const KernelText> texts) {
    const auto offer = [&] { return encode(make_offer(texts)); };
    std::vector<std::vector<Need>> needs;
    for (const std::string& bytes : gather_together(comm_, offer)) {
      offers_.push_back(decode(bytes));
      needs.push_back(offers_.back().needs);
    }
    if (std::ranges::all_of(needs, all_loaded)) {
      take_from_memory();
    } else {
      tasks_ = elect(needs);
      const std::string failure = lead();
      receive(exchange(failure));
    }
    std::vector<std::shared_ptr<const Kernel>> kernels;
    for (const BinaryRequest& request : requests_)
      kernels.push_back(find_loaded(platform_, request.key().digest())->kernel);
    return kernels;
  }

 private:
  static bool all_loaded(const std::vector<Need>& needs) {
    return std::ranges::all_of(
        needs, [](Reach reach) { return reach == Reach::in_memory; }, &Need::reach);
  }

  Offer make_offer(std::span<const KernelText> texts) {
    Offer offer{{}, available_cores().to_string(), config_.jit_jobs, {}};
    requests_.reserve(texts.size());
    for (const KernelText& text : texts) {
      const BinaryRequest& request = requests_.emplace_back(platform_.compiler(), text, config_);
      const bool has = find_loaded(platform_, request.key().digest()) != nullptr;
      offer.needs.push_back({request.key().digest(), has                   ? Reach::in_memory
                                                     : request.is_stored() ? Reach::on_disk
                                                                           : Reach::absent});
    }
    if (!all_loaded(offer.needs)) offer.directory = cache_.id();
    return offer;
  }

  void take_from_memory() {
    for (const BinaryRequest& request : requests_) {
      count(counters.hit_memory);
      if (comm_.in_one_process() && comm_.rank() > 0) continue;
      (void)request.dump(find_loaded(platform_, request.key().digest())->binary);
    }
  }

  /// Collective: finds or compiles what this rank leads; why that failed, if it did.
  std::string lead() {
    int fewest = std::numeric_limits<int>::max();
    for (int rank = 0; rank < comm_.size(); ++rank) fewest = std::min(fewest, jobs_of(rank));
    const int jobs = jobs_of(comm_.rank());
    cache_.slots().set(jobs, jobs * processes_beside(comm_.rank()));
    if (comm_.in_one_process()) fewest = std::max(1, fewest / comm_.size());  // threads share slots

    std::vector<const BinaryRequest*> led;
    Indexed<int> tasks(comm_.size());
    for (const Task& task : tasks_) {
      ++tasks[task.leader];
      if (task.leader == comm_.rank()) led.push_back(request_of(task.digest));
    }
    const std::string failure = find_or_compile(platform_, led);
    // The others wait for compilers. A leader may wait for other jobs as long as a compilation may
    // take, and the kernels of a batch that fails are compiled again one by one.
    constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
    const int most = std::ranges::max(tasks);
    const int rounds = (most + fewest - 1) / fewest + (most > fewest ? 1 : 0);
    comm_.barrier(std::min(longest, 2 * rounds * std::min(longest, config_.compile_timeout)));
    return failure;
  }

  /// Processes of this job on the node of `rank`.
  [[nodiscard]] int processes_beside(int rank) const {
    return comm_.in_one_process() ? 1 : static_cast<int>(comm_.nodes().beside(rank).size());
  }

  /// Compilers that `rank` may run at once, so that the cores of its node are enough for all.
  [[nodiscard]] int jobs_of(int rank) const {
    if (offers_[rank].jobs > 0) return offers_[rank].jobs;
    Cores all;
    for (const int other : comm_.nodes().beside(rank)) all |= Cores(offers_[other].cores);
    return std::max(1, static_cast<int>(all.count()) / processes_beside(rank));
  }

  /// Collective: the binaries that some rank lacks. Throws CompileError when a rank failed.
  std::map<Digest, CachedBinary> exchange(const std::string& failure) {
    std::string mine = failure.empty() ? "" : std::string(failed) + failure;
    for (const BinaryRequest& request : requests_) {
      const Digest& digest = request.key().digest();
      if (failure.empty() && find_loaded(platform_, digest) == nullptr) mine += bytes_of(digest);
    }
    std::set<Digest> lacked;
    for (std::string_view bytes : comm_.all_gather(mine)) {
      if (bytes.starts_with(failed)) throw CompileError(std::string(bytes.substr(failed.size())));
      for (; !bytes.empty(); bytes.remove_prefix(sizeof(Digest))) lacked.insert(digest_at(bytes));
    }
    std::map<Digest, CachedBinary> binaries;
    if (lacked.empty()) return binaries;
    std::string led;
    for (const Task& task : tasks_) {
      if (task.leader != comm_.rank() || !lacked.contains(task.digest)) continue;
      const auto stored = find_loaded(platform_, task.digest);
      append(led, stored->binary.payload);
      append(led, stored->binary.log);
    }
    const std::vector<std::string> sent = comm_.all_gather(led);
    Indexed<std::string_view> left(std::vector<std::string_view>(sent.begin(), sent.end()));
    for (const Task& task : tasks_) {
      if (!lacked.contains(task.digest)) continue;
      const std::string_view payload = take(left[task.leader]);
      const std::string_view log = take(left[task.leader]);
      binaries[task.digest] = {std::string(payload), std::string(log)};
    }
    return binaries;
  }

  /// Loads what others lead, and keeps it on disk where nobody else does. Collective if any rank
  /// loads.
  void receive(const std::map<Digest, CachedBinary>& binaries) {
    const auto load = [&] {
      for (const BinaryRequest& request : requests_) {
        const Task& task = *std::ranges::find(tasks_, request.key().digest(), &Task::digest);
        if (task.leader == comm_.rank()) continue;
        if (const auto stored = find_loaded(platform_, task.digest)) {
          count(counters.hit_memory);
          if (!comm_.in_one_process()) (void)request.dump(stored->binary);
          continue;
        }
        const CachedBinary& binary = binaries.at(task.digest);
        load_and_keep(platform_, request, binary);
        count(counters.hit_peer);
        if (stores(task)) request.publish(binary);
      }
    };
    if (binaries.empty()) {
      load();
    } else {
      together(comm_, load);
    }
  }

  /// Whether this rank stores what it got from `task`: the first of those that share a directory,
  /// if none of them has it.
  [[nodiscard]] bool stores(const Task& task) const {
    const std::string& directory = offers_[comm_.rank()].directory;
    if (directory.empty() || directory == offers_[task.leader].directory) return false;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      if (offers_[rank].directory != directory) continue;
      for (const Need& need : offers_[rank].needs) {
        if (need.digest != task.digest) continue;
        if (need.reach == Reach::on_disk) return false;
        if (rank != comm_.rank() && need.reach == Reach::absent) return false;
        if (rank == comm_.rank()) return true;
      }
    }
    return false;
  }

  [[nodiscard]] const BinaryRequest* request_of(const Digest& digest) const {
    return &*std::ranges::find_if(
        requests_, [&](const BinaryRequest& request) { return request.key().digest() == digest; });
  }

  Comm& comm_;
  const Platform& platform_;
  const Config& config_;
  KernelCache& cache_;
  std::vector<BinaryRequest> requests_;
  Indexed<Offer> offers_;  ///< by rank
  std::vector<Task> tasks_;
};

}  // namespace

std::vector<std::shared_ptr<const Kernel>> obtain_kernels(Comm& comm, const Platform& platform,
                                                          std::span<const KernelText> texts,
                                                          const Config& config) {
  if (texts.empty()) return {};
  return CollectiveSearch(comm, platform, config).run(texts);
}

void keep_kernel(const Platform& platform, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel) {
  const BinaryRequest request(platform.compiler(), text, config());
  keep_loaded(platform, request.key().digest(), {{}, std::move(kernel)});
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
  const CacheEvents events = cache_events();
  return {counters.hit_memory,
          counters.hit_disk,
          counters.hit_peer,
          counters.miss,
          static_cast<double>(counters.compile_us) / 1e3,
          events.corrupt,
          events.publish_lost};
}

}  // namespace coconet::jit
