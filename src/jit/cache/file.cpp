// Times of files, and files that appear as a whole.
#include "jit/cache/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

namespace coconet::jit {
namespace {

// Of the last access and of the last change.
std::array<timespec, 2> times_of(FileTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec spec{static_cast<time_t>(seconds.time_since_epoch().count()),
                      static_cast<long>((time - seconds).count())};
  return {spec, spec};
}

std::string temporary_name() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) buffer[0] = '\0';
  std::string host = buffer.data();
  std::ranges::replace(host, '/', '_');
  return fmt::format("{}{:.64}-{}-{}", temporary_prefix, host, getpid(), std::random_device()());
}

// Where a file system cannot rename without replacing, two writers may both be first.
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

FileTime time_of(const timespec& time) {
  return FileTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool set_time(int descriptor, FileTime time) {
  return futimens(descriptor, times_of(time).data()) == 0;
}

bool set_time(int folder, const std::string& name, FileTime time) {
  return utimensat(folder, name.c_str(), times_of(time).data(), AT_SYMLINK_NOFOLLOW) == 0;
}

AtomicFile::AtomicFile(int folder, std::string name, Durability durability)
    : folder_(folder), name_(std::move(name)), durability_(durability) {
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

void AtomicFile::finish() {
  if (!file_.is_open()) return;
  if (durability_ == Durability::synced &&
      uninterrupted([&] { return fsync(file_.number()); }) == -1)
    throw_errno("cannot sync", name_);
  // Network file systems report late write errors here. EINTR: Linux has closed it all the same.
  if (close(file_.release()) == -1 && errno != EINTR) throw_errno("cannot close", name_);
}

bool AtomicFile::commit() {
  finish();
  if (!rename_unless_there(folder_, temporary_, name_)) return false;
  temporary_.clear();
  return true;
}

void AtomicFile::replace() {
  finish();
  if (renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) == -1)
    throw_errno("cannot rename to", name_);
  temporary_.clear();
}

}  // namespace coconet::jit
