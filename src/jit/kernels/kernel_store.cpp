// Each binary once for all ranks: keys are gathered, leaders find or compile, bytes are sent to those that lack them.
#include "jit/kernels/kernel_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/cache/process_cache.h"
#include "jit/comm/worlds/cores.h"
#include "jit/kernels/binary_request.h"
#include "jit/kernels/election.h"
#include "jit/kernels/process_kernels.h"

namespace coconet::jit {

namespace {

/// What a rank tells the others before anything is compiled.
struct Offer {
  std::string directory;  ///< names the cache directory that it writes; empty: none
  std::vector<Need> needs;
};

constexpr std::size_t directory_bytes = 32;
constexpr std::size_t need_bytes = sizeof(Digest) + 1;

std::string encode(const Offer& offer) {
  std::string bytes = offer.directory;
  bytes.resize(directory_bytes);
  for (const Need& need : offer.needs) {
    bytes += bytes_of(need.digest);
    bytes += static_cast<char>(need.reach);
  }
  return bytes;
}

Offer decode_offer(std::string_view bytes) {
  Offer offer;
  offer.directory = bytes.substr(0, directory_bytes);
  offer.directory.resize(std::strlen(offer.directory.c_str()));
  bytes.remove_prefix(directory_bytes);
  for (; bytes.size() >= need_bytes; bytes.remove_prefix(need_bytes)) {
    Need& need = offer.needs.emplace_back();
    std::memcpy(need.digest.data(), bytes.data(), sizeof(Digest));
    need.reach = static_cast<Reach>(bytes[sizeof(Digest)]);
  }
  return offer;
}

/// What a leader sends: its tasks' binaries, in order.
void append(std::string& bytes, std::string_view part) {
  const std::uint64_t size = part.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += part;
}

std::string take(std::string_view& bytes) {
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  std::string part(bytes.substr(sizeof(size), size));
  bytes.remove_prefix(sizeof(size) + size);
  return part;
}

/// One collective search for the kernels of some texts.
class Search {
 public:
  Search(Comm& comm, const Platform& platform, std::span<const KernelText> texts)
      : comm_(comm), platform_(platform) {
    together(comm_, [&] {
      requests_.reserve(texts.size());
      for (const KernelText& text : texts) requests_.emplace_back(platform_.compiler(), text);
    });
  }

  std::vector<std::shared_ptr<const Kernel>> run() {
    gather_needs();
    lead();
    receive(exchange_missing());
    std::vector<std::shared_ptr<const Kernel>> kernels;
    for (const BinaryRequest& request : requests_)
      kernels.push_back(find_loaded(platform_, request.key().digest())->kernel);
    return kernels;
  }

 private:
  void gather_needs() {
    Offer mine;
    bool is_complete = true;
    for (const BinaryRequest& request : requests_) {
      const bool has = find_loaded(platform_, request.key().digest()) != nullptr;
      is_complete = is_complete && has;
      mine.needs.push_back({request.key().digest(), has                   ? Reach::in_memory
                                                    : request.is_stored() ? Reach::on_disk
                                                                          : Reach::absent});
    }
    if (!is_complete) mine.directory = process_cache().id();
    std::vector<std::vector<Need>> needs;
    for (const std::string& bytes : comm_.all_gather(encode(mine))) {
      offers_.push_back(decode_offer(bytes));
      needs.push_back(offers_.back().needs);
    }
    tasks_ = elect(needs);
    for (const Task& task : tasks_) {
      if (task.leader == comm_.rank()) led_.push_back(request_of(task.digest));
    }
  }

  /// Collective: finds or compiles what this rank leads.
  void lead() {
    const bool all_loaded = std::ranges::all_of(
        tasks_, [](const Task& task) { return task.reach == Reach::in_memory; });
    const int jobs = all_loaded ? 1 : share_cores();
    const std::vector<std::string> failures = find_or_compile(platform_, led_);
    // The others wait for compilers. A leader may wait for other jobs as long as a compilation may take.
    constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
    const int rounds = (most_tasks() + jobs - 1) / jobs;
    comm_.barrier(std::min(longest, 2 * rounds * std::min(longest, config().compile_timeout)));
    std::string failure;
    for (const std::string& text : failures) {
      if (failure.empty()) failure = text;
    }
    for (const std::string& text : comm_.all_gather(failure)) {
      if (!text.empty()) throw CompileError(text);
    }
  }

  /// Collective: lets as many compilers run at once as the cores of each node are enough for. How many that are for a
  /// process, where they are the fewest.
  int share_cores() {
    Comm& node = comm_.node();
    Cores all;
    for (const std::string& text : node.all_gather(available_cores().to_string()))
      all |= Cores(text);
    const int processes = comm_.in_one_process() ? 1 : node.size();
    const int jobs = config().jit_jobs > 0 ? config().jit_jobs
                                           : std::max(1, static_cast<int>(all.count()) / processes);
    process_cache().slots().set(jobs, jobs * processes);
    int fewest = jobs;
    for (const std::string& text : comm_.all_gather(std::to_string(jobs)))
      fewest = std::min(fewest, std::stoi(text));
    // Threads of one process share its slots.
    return comm_.in_one_process() ? std::max(1, fewest / comm_.size()) : fewest;
  }

  /// Of the busiest leader.
  [[nodiscard]] int most_tasks() const {
    std::vector<int> tasks(offers_.size());
    for (const Task& task : tasks_) ++tasks[static_cast<std::size_t>(task.leader)];
    return *std::ranges::max_element(tasks);
  }

  /// Collective: for every task an empty binary, or one that some rank lacks.
  std::vector<CachedBinary> exchange_missing() {
    std::string lacks;
    for (const BinaryRequest& request : requests_) {
      const bool has = find_loaded(platform_, request.key().digest()) != nullptr;
      if (!has) lacks += bytes_of(request.key().digest());
    }
    std::string all;
    for (const std::string& text : comm_.all_gather(lacks)) all += text;
    std::vector<CachedBinary> binaries(tasks_.size());
    if (all.empty()) return binaries;
    const auto is_lacked = [&](const Digest& digest) {
      for (std::size_t at = 0; at < all.size(); at += sizeof(Digest)) {
        if (all.compare(at, sizeof(Digest), bytes_of(digest)) == 0) return true;
      }
      return false;
    };
    std::string mine;
    for (const Task& task : tasks_) {
      if (task.leader != comm_.rank() || !is_lacked(task.digest)) continue;
      const auto stored = find_loaded(platform_, task.digest);
      append(mine, stored->binary.payload);
      append(mine, stored->binary.log);
    }
    const std::vector<std::string> sent = comm_.all_gather(mine);
    std::vector<std::string_view> left(sent.begin(), sent.end());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!is_lacked(tasks_[i].digest)) continue;
      std::string_view& from = left[static_cast<std::size_t>(tasks_[i].leader)];
      binaries[i].payload = take(from);
      binaries[i].log = take(from);
    }
    return binaries;
  }

  /// Collective: loads what was sent and this rank needs; keeps it on disk where nobody else does.
  void receive(const std::vector<CachedBinary>& binaries) {
    together(comm_, [&] {
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        const BinaryRequest& request = requests_[i];
        const std::size_t task = task_of(request.key().digest());
        if (tasks_[task].leader == comm_.rank()) continue;
        if (const auto stored = find_loaded(platform_, request.key().digest())) {
          count_kernel(Origin::memory);
          if (!comm_.in_one_process()) request.dump(stored->binary);
          continue;
        }
        (void)load_and_keep(platform_, request.key().digest(), binaries[task],
                            request.text().entry);
        count_kernel(Origin::peer);
        request.dump(binaries[task]);
        if (stores(tasks_[task])) request.publish(binaries[task]);
      }
    });
  }

  /// Whether this rank is the one that stores what it got from `task` in its directory: the first of those that share
  /// the directory, if none of them has it.
  [[nodiscard]] bool stores(const Task& task) const {
    const std::string& directory = offers_[static_cast<std::size_t>(comm_.rank())].directory;
    if (directory.empty() || directory == offers_[static_cast<std::size_t>(task.leader)].directory)
      return false;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const Offer& offer = offers_[static_cast<std::size_t>(rank)];
      if (offer.directory != directory) continue;
      for (const Need& need : offer.needs) {
        if (need.digest != task.digest) continue;
        if (need.reach == Reach::on_disk) return false;
        if (rank != comm_.rank() && need.reach == Reach::absent) return false;
        if (rank == comm_.rank()) return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::size_t task_of(const Digest& digest) const {
    return static_cast<std::size_t>(std::ranges::find(tasks_, digest, &Task::digest) -
                                    tasks_.begin());
  }
  [[nodiscard]] const BinaryRequest* request_of(const Digest& digest) const {
    return &*std::ranges::find_if(
        requests_, [&](const BinaryRequest& request) { return request.key().digest() == digest; });
  }

  Comm& comm_;
  const Platform& platform_;
  std::vector<BinaryRequest> requests_;
  std::vector<Offer> offers_;  ///< by rank
  std::vector<Task> tasks_;
  std::vector<const BinaryRequest*> led_;
};

}  // namespace

std::vector<std::shared_ptr<const Kernel>> obtain_kernels(Comm& comm, const Platform& platform,
                                                          std::span<const KernelText> texts) {
  if (texts.empty()) return {};
  return Search(comm, platform, texts).run();
}

std::shared_ptr<const Kernel> obtain_kernel(Comm& comm, const Platform& platform,
                                            const KernelText& text) {
  return obtain_kernels(comm, platform, {&text, 1}).front();
}

void keep_kernel(const Platform& platform, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel) {
  const BinaryRequest request(platform.compiler(), text);
  keep_loaded(platform, request.key().digest(), {{}, std::move(kernel)});
}

}  // namespace coconet::jit
