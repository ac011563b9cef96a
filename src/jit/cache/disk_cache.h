// One cache directory: entries that are found, published and evicted.
#pragma once

#include <atomic>
#include <mutex>

#include "jit/cache/entry.h"
#include "jit/cache/evict.h"
#include "jit/cache/locks.h"

namespace coconet::jit {

enum class CacheMode : std::uint8_t { read_write, read_only, off };

/// Which variable names a directory, for warnings.
enum class CacheRole : std::uint8_t { cache_dir, cache_path };

/// A cache directory; an empty path is no cache. Destruction waits for an eviction. Failures to
/// read or write cost one warning for each object and nothing else. Threads may share an object.
class DiskCache {
 public:
  DiskCache(std::filesystem::path directory, CacheMode mode, Limits limits = {},
            CacheRole role = CacheRole::cache_dir);
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  /// What is stored under `key`. A damaged entry is warned of, and removed when the mode allows.
  [[nodiscard]] std::optional<CachedBinary> find(const CacheKey& key);
  /// Whether there is a file for `key`, good or bad.
  [[nodiscard]] bool contains(const CacheKey& key);
  /// Stores `binary` unless there is an entry; may evict in the background. False when another
  /// process had stored one first.
  bool publish(const CacheKey& key, const CachedBinary& binary);
  /// Removes the entry of `key` if it is `binary`, which is sound but wrong.
  void discard(const CacheKey& key, const CachedBinary& binary);

  /// The lock for making the binary of `key`; waits until `deadline`, or until there is an entry.
  /// Nothing when the deadline has come, there is an entry, or this directory has no locks.
  [[nodiscard]] std::optional<Lock> lock(const CacheKey& key, Deadline deadline);
  /// Whether locks can be had here, as far as is known.
  [[nodiscard]] bool has_locks() const { return mode_ == CacheMode::read_write && locks_; }
  /// One of `slots` places of compilers on this machine, by the same rules.
  [[nodiscard]] std::optional<Lock> lock_compiler(int slots, Deadline deadline);

  /// Names the directory, the same on all machines that share it; empty where it is not written.
  [[nodiscard]] std::string id();

  /// Where the entry of `key` is or would be.
  [[nodiscard]] std::filesystem::path path_of(const CacheKey& key) const {
    return path_ / folder_of(key.digest()) / name_of(key.digest());
  }
  /// Waits for an eviction that this process has under way.
  void finish() { evictor_.finish(); }
  /// Entries so far whose content was wrong.
  [[nodiscard]] std::uint64_t corrupt() const { return corrupt_; }

 private:
  /// The open directory; null when there is none or it is not to be used.
  [[nodiscard]] std::shared_ptr<const CacheDirectory> opened();
  /// The open directory, created when missing and writable. Throws std::system_error.
  [[nodiscard]] std::shared_ptr<const CacheDirectory> made();
  /// What `body` returns; its default on a system_error, which `on_error` takes, or on distrust.
  template <class Body, class OnError>
  auto guarded(const Body& body, const OnError& on_error) -> decltype(body());
  [[nodiscard]] std::optional<CachedBinary> read(const CacheDirectory& directory,
                                                 const CacheKey& key);
  void damaged(int folder, const std::string& name, const struct stat& status,
               const std::filesystem::path& path, const char* wrong);
  void account(const std::shared_ptr<const CacheDirectory>& directory, std::size_t bytes);
  template <class Take>
  std::optional<Lock> wait_for(Deadline deadline, const Take& take);

  void warn_once(const std::string& message);
  void distrust(const Distrust& reason);
  void warn(const std::string& what, const std::string& why);

  std::filesystem::path path_;
  Limits limits_;
  CacheRole role_;
  std::atomic<CacheMode> mode_;  ///< becomes less when the file system refuses
  std::atomic<bool> warned_ = false;
  std::atomic<bool> locks_ = true;  ///< whether locks work, as far as is known
  std::atomic<std::uint64_t> corrupt_ = 0;
  std::mutex mutex_;
  std::shared_ptr<const CacheDirectory> directory_;
  Evictor evictor_;
};

}  // namespace coconet::jit
