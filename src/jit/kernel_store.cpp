// Finding, compiling and sharing kernels.
#include "jit/kernel_store.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

struct Counters {
  std::atomic<std::uint64_t> hit_memory{0}, hit_disk{0}, hit_peer{0}, miss{0};
};
Counters counters;

/// The kernels of this process, by digest, with their bytes for ranks that lack them.
struct Stored {
  std::string binary;
  std::shared_ptr<const Kernel> kernel;
};
std::mutex stored_mutex;
std::map<std::string, Stored> stored;

std::shared_ptr<const Kernel> find_stored(const std::string& digest,
                                          std::string* binary = nullptr) {
  const std::lock_guard lock(stored_mutex);
  const auto found = stored.find(digest);
  if (found == stored.end()) return nullptr;
  if (binary != nullptr) *binary = found->second.binary;
  return found->second.kernel;
}

std::shared_ptr<const Kernel> keep(const std::string& digest, const std::string& binary,
                                   const std::string& entry) {
  std::shared_ptr<const Kernel> kernel = load_host_kernel(binary, entry);
  const std::lock_guard lock(stored_mutex);
  return stored.try_emplace(digest, Stored{binary, std::move(kernel)}).first->second.kernel;
}

DiskCache open_disk_cache() {
  const std::string& mode = config().cache;
  return {config().cache_dir, mode == "off" || config().cache_dir.empty() ? CacheMode::off
                              : mode == "ro"                              ? CacheMode::read_only
                                                                          : CacheMode::read_write};
}

/// Writes the source where a person can read it and returns its path; empty when that is not possible.
std::string dump(const std::string& name, const std::string& digest, const std::string& source,
                 bool failed) {
  std::filesystem::path directory = config().dump_dir;
  if (directory.empty()) {
    if (!failed) return {};
    directory =
        std::filesystem::temp_directory_path() / ("coconet-jit-" + std::to_string(geteuid()));
  }
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::filesystem::path path = directory / (name + "-" + digest.substr(0, 8) + ".cpp");
  std::ofstream file(path);
  file << source;
  file.close();
  if (file) return path.string();
  log_warn("cannot write the kernel's source to '" + path.string() + "'");
  return {};
}

[[noreturn]] void refuse(const KernelText& text, const std::string& source,
                         const std::string& digest, const Backend::Compiled& compiled) {
  std::smatch match;
  std::string op;
  if (std::regex_search(compiled.log, match, std::regex(R"(:(\d+):\d+: (?:fatal )?error:)"))) {
    op = op_at_line(source, std::atoi(match[1].str().c_str()));
  }
  const std::string path = dump(text.name, digest, source, true);
  throw CompileError("kernel '" + text.name + "' does not compile" +
                     (op.empty() ? "" : "; the first error is in op " + op) +
                     ".\ncommand: " + compiled.command + (path.empty() ? "" : "\nsource: " + path) +
                     "\nthe compiler says:\n" + compiled.log);
}

/// Rank 0's part: the binary of `text` and its digest.
struct Found {
  std::string digest;
  std::string binary;
};

Found find_or_compile(const KernelText& text) {
  const Backend& backend = host_backend();
  const std::string source = complete_source(text, backend.target());
  const CacheKey key = backend.key(source, text.entry);
  Found found{key.digest(), {}};
  if (!config().dump_dir.empty()) (void)dump(text.name, found.digest, source, false);
  if (find_stored(found.digest, &found.binary) != nullptr) {
    ++counters.hit_memory;
    return found;
  }
  DiskCache disk = open_disk_cache();
  if (std::optional<std::string> payload = disk.get(key)) {
    try {
      (void)keep(found.digest, *payload, text.entry);
      found.binary = std::move(*payload);
      ++counters.hit_disk;
      return found;
    } catch (const BackendError& error) {
      log_warn("the cache entry of kernel '" + text.name +
               "' does not load and is compiled again: " + error.what());
    }
  }
  Backend::Compiled compiled = backend.compile(source);
  if (!compiled.ok) refuse(text, source, found.digest, compiled);
  ++counters.miss;
  (void)keep(found.digest, compiled.binary, text.entry);
  disk.put(key, compiled.binary);
  found.binary = std::move(compiled.binary);
  return found;
}

}  // namespace

std::shared_ptr<const Kernel> obtain_kernel(Comm& comm, const KernelText& text) {
  Found found;
  std::string failure;
  if (comm.rank() == 0) {
    try {
      found = find_or_compile(text);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  comm.barrier(config().compile_timeout);  // the others wait for rank 0's compiler
  failure = comm.broadcast(failure, 0);
  if (!failure.empty()) throw CompileError(failure);
  if (comm.size() == 1) return find_stored(found.digest);

  const std::string digest = comm.broadcast(found.digest, 0);
  std::shared_ptr<const Kernel> kernel = find_stored(digest);
  bool all_have = true;
  for (const std::string& has : comm.all_gather(kernel != nullptr ? "1" : "0"))
    all_have = all_have && has == "1";
  if (!all_have) {
    const std::string binary = comm.broadcast(found.binary, 0);
    const bool received = kernel == nullptr;
    together(comm, [&] {
      if (received) kernel = keep(digest, binary, text.entry);
    });
    if (received) {
      ++counters.hit_peer;
      return kernel;
    }
  }
  if (comm.rank() != 0) ++counters.hit_memory;
  return kernel;
}

CacheCounters cache_counters() {
  return {counters.hit_memory, counters.hit_disk, counters.hit_peer, counters.miss};
}

}  // namespace coconet::jit
