// Finding, publishing and evicting entries; kernel_cache/README.md says what is promised.
#include "jit/cache/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "jit/config/log.h"

namespace coconet::jit {
namespace {

[[noreturn]] void cannot_read(int error, const std::filesystem::path& path) {
  errno = error;
  throw_errno("cannot read", path.string());
}

bool refuses_writes(const std::error_code& error) {
  return error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
         error == std::errc::read_only_file_system;
}

bool is_about_locks(const std::error_code& error) {
  return error == std::errc::no_lock_available || error == std::errc::not_supported ||
         error == std::errc::operation_not_supported || error == std::errc::invalid_argument ||
         error == std::errc::function_not_supported;
}

}  // namespace

DiskCache::DiskCache(std::filesystem::path directory, CacheMode mode, Limits limits, CacheRole role)
    : path_(std::move(directory)),
      limits_(limits),
      role_(role),
      mode_(path_.empty() ? CacheMode::off : mode),
      evictor_(limits, [this](const std::string& problem) { warn_once(problem); }) {}

std::shared_ptr<const CacheDirectory> DiskCache::opened() {
  const CacheMode mode = mode_;
  if (mode == CacheMode::off) return nullptr;
  const std::lock_guard lock(mutex_);
  const Ownership owned = mode == CacheMode::read_write ? Ownership::mine : Ownership::vetted;
  if (!directory_) directory_ = CacheDirectory::open(path_, owned);
  return directory_;
}

std::shared_ptr<const CacheDirectory> DiskCache::made() {
  const std::lock_guard lock(mutex_);
  // Somebody may have removed it meanwhile.
  if (!directory_ || directory_->is_gone())
    directory_ = CacheDirectory::make(path_, Ownership::mine);
  return directory_;
}

template <class Body, class OnError>
auto DiskCache::guarded(const Body& body, const OnError& on_error) -> decltype(body()) {
  try {
    return body();
  } catch (const std::system_error& error) {
    on_error(error);
  } catch (const Distrust& reason) {
    distrust(reason);
  }
  return {};
}

std::optional<CachedBinary> DiskCache::find(const CacheKey& key) {
  const auto body = [&]() -> std::optional<CachedBinary> {
    const auto directory = opened();
    return directory ? read(*directory, key) : std::nullopt;
  };
  // An error says nothing about the content, so the entry stays.
  return guarded(body, [&](const std::system_error& error) { warn_once(error.what()); });
}

std::optional<CachedBinary> DiskCache::read(const CacheDirectory& directory, const CacheKey& key) {
  const OpenFile folder = directory.folder(folder_of(key.digest()));
  if (!folder.is_open() && errno == ENOENT) return std::nullopt;
  if (!folder.is_open()) cannot_read(errno, path_of(key).parent_path());
  const std::string name = name_of(key.digest());
  // O_NONBLOCK: a pipe of that name must not make us wait for a writer.
  const OpenFile file = open_at(folder.number(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status {};
  if (!file.is_open()) {
    const int error = errno;
    if (error == ENOENT) return std::nullopt;
    if (error != ELOOP) cannot_read(error, path_of(key));
    if (fstatat(folder.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      damaged(folder.number(), name, status, path_of(key), "it is a symbolic link");
    return std::nullopt;
  }
  if (fstat(file.number(), &status) == -1) cannot_read(errno, path_of(key));
  if (!S_ISREG(status.st_mode))
    cannot_read(S_ISDIR(status.st_mode) ? EISDIR : EINVAL, path_of(key));

  CachedBinary binary;
  const char* wrong = directory.distrusts(status);
  if (wrong == nullptr && status.st_size > static_cast<off_t>(most_entry_bytes))
    wrong = "it is too long";
  if (wrong == nullptr) {
    const std::string bytes = read_bytes(file.number(), static_cast<std::size_t>(status.st_size));
    EntryView entry;
    wrong = decode_entry(bytes, entry);
    if (wrong == nullptr &&
        (entry.key_text != key.text() || entry.digest != bytes_of(key.digest()))) {
      wrong = "its key is another";
    }
    if (wrong == nullptr) binary = {std::string(entry.payload), std::string(entry.log)};
  }
  if (wrong != nullptr) {
    damaged(folder.number(), name, status, path_of(key), wrong);
    return std::nullopt;
  }
  const FileTime now = time_now();
  // A hint for evictions: where it is refused, the entry is as good.
  if (mode_ == CacheMode::read_write && now - time_of(status) > day)
    (void)set_time(file.number(), now);
  return binary;
}

void DiskCache::damaged(int folder, const std::string& name, const struct stat& status,
                        const std::filesystem::path& path, const char* wrong) {
  ++corrupt_;
  bool removed = false;
  // Only the file that was read: another process may have put a good entry there since.
  if (mode_ == CacheMode::read_write) {
    struct stat now {};
    const bool there = fstatat(folder, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                       now.st_dev == status.st_dev && now.st_ino == status.st_ino;
    removed = !there || unlinkat(folder, name.c_str(), 0) == 0;
  }
  log_warn(fmt::format(
      "The cached kernel '{}' is damaged: {}. It is {}, and the kernel is compiled again.",
      path.string(), wrong, removed ? "removed" : "ignored"));
}

bool DiskCache::contains(const CacheKey& key) {
  const auto body = [&] {
    const auto directory = opened();
    if (!directory) return false;
    const std::string name = folder_of(key.digest()) + "/" + name_of(key.digest());
    struct stat status {};
    return fstatat(directory->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  };
  return guarded(body, [&](const std::system_error& error) { warn_once(error.what()); });
}

bool DiskCache::publish(const CacheKey& key, const CachedBinary& binary) {
  if (mode_ != CacheMode::read_write) return true;
  const auto loses = [&] {
    const std::string bytes = encode_entry(key, binary);
    if (bytes.size() > most_entry_bytes) {
      throw std::system_error(std::make_error_code(std::errc::file_too_large),
                              "cannot store '" + path_of(key).string() + "'");
    }
    const auto directory = made();
    const OpenFile folder = directory->make_folder(folder_of(key.digest()));
    AtomicFile file(folder.number(), name_of(key.digest()));
    file.write(bytes);
    if (!file.commit()) return true;
    // Not before it has its name: a temporary file that looks a day old is evicted.
    (void)set_time(folder.number(), name_of(key.digest()), time_now() - day);
    account(directory, bytes.size());
    return false;
  };
  return !guarded(loses, [&](const std::system_error& error) {
    // A refusal holds for every later entry too: do not try again and again.
    if (refuses_writes(error.code())) mode_ = CacheMode::read_only;
    warn_once(error.what());
  });
}

void DiskCache::discard(const CacheKey& key, const CachedBinary& binary) {
  const std::optional<CachedBinary> found = find(key);
  if (!found || found->payload != binary.payload || mode_ != CacheMode::read_write) return;
  const OpenFile folder = opened()->folder(folder_of(key.digest()));
  unlinkat(folder.number(), name_of(key.digest()).c_str(), 0);
}

template <class Take>
std::optional<Lock> DiskCache::wait_for(Deadline deadline, const Take& take) {
  if (!has_locks()) return std::nullopt;
  const auto body = [&]() -> std::optional<Lock> {
    const auto directory = made();
    Backoff backoff(deadline);
    do {
      bool enough = false;
      std::optional<Lock> lock = take(*directory, enough);
      if (lock || enough) return lock;
    } while (backoff.wait());
    return std::nullopt;
  };
  return guarded(body, [&](const std::system_error& error) {
    // Whoever writes says what is wrong with the directory, if anything but its locks is.
    const bool none = is_about_locks(error.code());
    if ((none || refuses_writes(error.code())) && locks_.exchange(false) && none) {
      log_warn(
          fmt::format("The kernel cache in '{}' has no locks ({}), so that several processes "
                      "may compile the same kernel.",
                      path_.string(), error.what()));
    }
  });
}

std::optional<Lock> DiskCache::lock(const CacheKey& key, Deadline deadline) {
  return wait_for(deadline, [&](const CacheDirectory& directory, bool& enough) {
    std::optional<Lock> lock = lock_if_free(directory, LockPlace::key(key.digest()));
    enough = !lock && contains(key);
    return lock;
  });
}

std::optional<Lock> DiskCache::lock_compiler(int slots, Deadline deadline) {
  // Not all at every look: each is a question to the server of a network file system.
  constexpr int most_at_once = 8;
  std::minstd_rand random(static_cast<unsigned>(getpid()));
  return wait_for(deadline, [&](const CacheDirectory& directory, bool&) {
    std::vector<LockPlace> places;
    const auto first = static_cast<int>(random() % static_cast<unsigned>(slots));
    for (int i = 0; i < std::min(slots, most_at_once); ++i)
      places.push_back(LockPlace::compiler((first + i) % slots));
    return lock_if_free(directory, places);
  });
}

std::string DiskCache::id() {
  if (mode_ != CacheMode::read_write) return {};
  const auto body = [&] {
    const auto directory = made();
    // Without a lock, as it never changes, and all ranks of a job ask at once.
    const std::optional<CacheStats> stats = read_stats(*directory);
    return stats ? stats->id : update_stats(*directory).id;
  };
  return guarded(body, [](const std::system_error&) {});  // whoever writes or locks says why
}

void DiskCache::account(const std::shared_ptr<const CacheDirectory>& directory, std::size_t bytes) {
  bool due = true;  // without counts, every entry is a reason
  try {
    const CacheStats stats =
        update_stats(*directory, [&](CacheStats& changed) { changed.totals.add(bytes); });
    due = limits_.exceeded_by(stats.totals) ||
          seconds_of(time_now()) - stats.evicted > std::chrono::seconds(day).count();
  } catch (const std::system_error&) {
  }
  if (due) evictor_.start(directory);
}

void DiskCache::distrust(const Distrust& reason) {
  mode_ = CacheMode::off;
  warn(role_ == CacheRole::cache_dir ? "The kernel cache is not used"
                                     : "A directory of COCONET_CACHE_PATH is not used",
       reason.what());
}

void DiskCache::warn_once(const std::string& message) {
  warn(fmt::format("The kernel cache in '{}'{} does not work", path_.string(),
                   role_ == CacheRole::cache_dir ? "" : ", which COCONET_CACHE_PATH names,"),
       message);
}

void DiskCache::warn(const std::string& what, const std::string& why) {
  if (warned_.exchange(true)) return;
  log_warn(fmt::format("{}: {}.{}", what, why,
                       role_ == CacheRole::cache_path
                           ? ""
                           : " Kernels are compiled again in every process; COCONET_CACHE_DIR "
                             "names another directory."));
}

}  // namespace coconet::jit
