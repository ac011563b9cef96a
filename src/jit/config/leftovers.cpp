// Locks on what is to be removed, see leftovers.h.
#include "jit/config/leftovers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

/// Locks `path`, which gets open in `lock`. An errno where that is not so; ENOLCK where the file
/// system has no locks.
int try_lock(const fs::path& path, OpenFile& lock) {
  // O_NONBLOCK: what somebody has put there under such a name may be a pipe.
  OpenFile opened = open_at(AT_FDCWD, path.string(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!opened.is_open()) return errno;
  if (flock(opened.number(), LOCK_EX | LOCK_NB) == -1)
    return errno == EWOULDBLOCK ? EWOULDBLOCK : ENOLCK;
  struct stat status {};
  if (fstat(opened.number(), &status) == -1 || status.st_nlink == 0) return ENOENT;
  lock = std::move(opened);
  return 0;
}

}  // namespace

OpenFile lock_path(const fs::path& path) {
  OpenFile lock;
  (void)try_lock(path, lock);
  return lock;
}

fs::path make_locked(const std::function<fs::path()>& make, OpenFile& lock) {
  constexpr int most_attempts = 16;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    fs::path made = make();
    const int error = try_lock(made, lock);
    if (error == 0 || error == ENOLCK) return made;
    if (error == EWOULDBLOCK || error == ENOENT || error == ELOOP) continue;  // somebody's, or gone
    std::error_code ignored;
    fs::remove(made, ignored);  // new, hence empty
    throw std::system_error(error, std::generic_category(),
                            fmt::format("cannot open '{}'", made.string()));
  }
  return {};
}

void remove_leftovers(const fs::path& directory, std::string_view prefix,
                      const std::function<void(const fs::path&, const std::error_code&)>& removed) {
  const OpenFile opened = open_at(AT_FDCWD, directory.string(), O_RDONLY | O_DIRECTORY);
  if (!opened.is_open() && errno == ENOENT) return;
  if (!opened.is_open()) throw_errno("cannot read the directory", directory.string());
  for_each_name(opened.number(), [&](const std::string& name) {
    if (!name.starts_with(prefix)) return;
    const fs::path path = directory / name;
    struct stat status {};
    if (lstat(path.c_str(), &status) == -1 || status.st_uid != geteuid()) return;
    const OpenFile lock = lock_path(path);
    if (!lock.is_open()) return;
    std::error_code error;
    fs::remove_all(path, error);
    if (removed) removed(path, error);
  });
}

void try_remove_leftovers(const fs::path& directory, std::string_view prefix) {
  try {
    remove_leftovers(directory, prefix);
  } catch (const std::system_error&) {
    // A directory may be for writing only.
  }
}

}  // namespace coconet::jit
