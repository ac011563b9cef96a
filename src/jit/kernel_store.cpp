// Finding, compiling and sharing kernels.
#include "jit/kernel_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/binary_request.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

struct Counters {
  std::atomic<std::uint64_t> hit_memory{0}, hit_disk{0}, hit_peer{0}, miss{0};
};
Counters counters;

/// The kernels of this process, by backend and digest, with their bytes for ranks that lack them.
struct Stored {
  std::string binary;
  std::shared_ptr<const Kernel> kernel;
};
using Place = std::pair<const Backend*, std::string>;

/// Never destroyed: a driver may be gone before this process's static objects.
struct Store {
  std::mutex mutex;
  std::map<Place, Stored> kernels;
};
Store& store() {
  static Store* const only = new Store;  // NOLINT: see above
  return *only;
}

std::shared_ptr<const Kernel> find_stored(const Backend& backend, const std::string& digest,
                                          std::string* binary = nullptr) {
  const std::lock_guard lock(store().mutex);
  const auto found = store().kernels.find({&backend, digest});
  if (found == store().kernels.end()) return nullptr;
  if (binary != nullptr) *binary = found->second.binary;
  return found->second.kernel;
}

std::shared_ptr<const Kernel> keep(const Backend& backend, const std::string& digest,
                                   const std::string& binary, const std::string& entry) {
  std::shared_ptr<const Kernel> kernel = backend.load(binary, entry);
  const std::lock_guard lock(store().mutex);
  return store()
      .kernels.try_emplace({&backend, digest}, Stored{binary, std::move(kernel)})
      .first->second.kernel;
}

/// Rank 0's part: the binary of `text` and its digest.
struct Found {
  std::string digest;
  std::string binary;
};

Found find_or_compile(const Backend& backend, const KernelText& text) {
  const BinaryRequest request(backend.compiler(), text);
  Found found{request.digest(), {}};
  if (find_stored(backend, found.digest, &found.binary) != nullptr) {
    ++counters.hit_memory;
    log_debug("kernel '" + text.name + "' found in memory: " + found.digest);
    return found;
  }
  if (std::optional<std::string> binary = request.find_on_disk()) {
    try {
      (void)keep(backend, found.digest, *binary, text.entry);
      found.binary = std::move(*binary);
      ++counters.hit_disk;
      log_info("kernel '" + text.name + "' found in the cache on disk: " + found.digest);
      return found;
    } catch (const BackendError& error) {
      log_warn("the cache entry of kernel '" + text.name +
               "' does not load and is compiled again: " + error.what());
    }
  }
  const auto start = std::chrono::steady_clock::now();
  CompileResult compiled = request.compile();
  ++counters.miss;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log_info("kernel '" + text.name + "' compiled in " + std::to_string(std::lround(took.count())) +
           " ms: " + compiled.command);
  (void)keep(backend, found.digest, compiled.binary, text.entry);
  request.publish(compiled.binary);
  found.binary = std::move(compiled.binary);
  return found;
}

/// Collective: whether one binary is right for all nodes, which may have other processors, GPUs or compilers.
bool nodes_agree(Comm& comm, const Backend& backend, const KernelText& text) {
  if (&comm.node() == &comm) return true;
  std::string digest;
  together(comm, [&] {
    if (comm.node().rank() == 0) digest = BinaryRequest(backend.compiler(), text).digest();
  });
  const std::vector<std::string> digests = comm.all_gather(digest);
  return std::ranges::all_of(
      digests, [&](const std::string& other) { return other.empty() || other == digests.front(); });
}

/// Collective: the first rank of each node finds or compiles the kernel for its node.
std::shared_ptr<const Kernel> obtain_in_nodes(Comm& comm, const Backend& backend,
                                              const KernelText& text) {
  std::shared_ptr<const Kernel> kernel;
  const auto wait_for_other_nodes = [&] { comm.barrier(config().compile_timeout); };
  together(comm, [&] {
    try {
      kernel = obtain_kernel(comm.node(), backend, text);
    } catch (const CompileError&) {
      wait_for_other_nodes();
      throw;
    }
    wait_for_other_nodes();
  });
  return kernel;
}

}  // namespace

std::shared_ptr<const Kernel> obtain_kernel(Comm& comm, const Backend& backend,
                                            const KernelText& text) {
  if (!nodes_agree(comm, backend, text)) return obtain_in_nodes(comm, backend, text);
  Found found;
  std::string failure;
  if (comm.rank() == 0) {
    try {
      found = find_or_compile(backend, text);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  comm.barrier(config().compile_timeout);  // the others wait for rank 0's compiler
  failure = comm.broadcast(failure, 0);
  if (!failure.empty()) throw CompileError(failure);
  if (comm.size() == 1) return find_stored(backend, found.digest);

  const std::string digest = comm.broadcast(found.digest, 0);
  std::shared_ptr<const Kernel> kernel = find_stored(backend, digest);
  bool all_have = true;
  for (const std::string& has : comm.all_gather(kernel != nullptr ? "1" : "0"))
    all_have = all_have && has == "1";
  if (!all_have) {
    const std::string binary = comm.broadcast(found.binary, 0);
    const bool received = kernel == nullptr;
    together(comm, [&] {
      if (received) kernel = keep(backend, digest, binary, text.entry);
    });
    if (received) {
      ++counters.hit_peer;
      return kernel;
    }
  }
  if (comm.rank() != 0) ++counters.hit_memory;
  return kernel;
}

void keep_kernel(const Backend& backend, const KernelText& text,
                 std::shared_ptr<const Kernel> kernel) {
  const BinaryRequest request(backend.compiler(), text);
  const std::lock_guard lock(store().mutex);
  store().kernels.try_emplace({&backend, request.digest()}, Stored{{}, std::move(kernel)});
}

CacheCounters cache_counters() {
  return {counters.hit_memory, counters.hit_disk, counters.hit_peer, counters.miss};
}

}  // namespace coconet::jit
