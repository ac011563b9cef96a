// Temporary file, write, sync, rename.
#include "jit/cache/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

namespace coconet::jit {
namespace {

std::string temporary_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string name = host.data();
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  std::random_device random;
  return std::string(temporary_prefix) + name.substr(0, 64) + "-" + std::to_string(getpid()) + "-" +
         std::to_string(random());
}

// Not every file system can rename without replacing; where it cannot, two writers may both believe that they were
// first.
bool rename_unless_there(int folder, const std::string& from, const std::string& to) {
  if (renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    throw_errno("cannot rename to", to);
  struct stat status {};
  if (fstatat(folder, to.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return false;
  if (renameat(folder, from.c_str(), folder, to.c_str()) == -1) throw_errno("cannot rename to", to);
  return true;
}

}  // namespace

AtomicFile::AtomicFile(int folder, std::string name) : folder_(folder), name_(std::move(name)) {
  // O_EXCL: a name that exists belongs to somebody else, so another one is drawn.
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string candidate = temporary_name();
    file_ = open_at(folder_, candidate, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (file_.is_open()) {
      temporary_ = std::move(candidate);
      return;
    }
    if (errno != EEXIST) break;
  }
  throw_errno("cannot create a file beside", name_);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
}

void AtomicFile::write(std::string_view bytes) {
  write_bytes(file_.number(), bytes);
}

bool AtomicFile::commit() {
  while (fsync(file_.number()) == -1) {
    if (errno != EINTR) throw_errno("cannot sync", name_);
  }
  // Network file systems report late write errors at close. After EINTR the descriptor is gone on Linux.
  if (close(file_.release()) == -1 && errno != EINTR) throw_errno("cannot close", name_);
  if (!rename_unless_there(folder_, temporary_, name_)) return false;
  temporary_.clear();
  return true;
}

}  // namespace coconet::jit
