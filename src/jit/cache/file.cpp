// Thin layers over system calls.
#include "jit/cache/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <random>
#include <system_error>

namespace coconet::jit {
namespace {

// Some calls are interrupted by signals that the application handles; they are simply made again.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

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

OpenFile::~OpenFile() {
  if (number_ != -1) close(number_);
}

FileTime time_of(const timespec& time) {
  return FileTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool set_time(int descriptor, FileTime time) {
  return futimens(descriptor, times_of(time).data()) == 0;
}

bool set_time(int folder, const std::string& name, FileTime time) {
  return utimensat(folder, name.c_str(), times_of(time).data(), AT_SYMLINK_NOFOLLOW) == 0;
}

OpenFile open_at(int at, const std::string& name, int flags, unsigned mode) {
  return OpenFile(uninterrupted([&] { return openat(at, name.c_str(), flags | O_CLOEXEC, mode); }));
}

std::string read_bytes(int descriptor, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = uninterrupted([&] {
      return pread(descriptor, bytes.data() + have, size - have, static_cast<off_t>(have));
    });
    if (got == -1) fail("cannot read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void write_bytes(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return write(descriptor, bytes.data(), bytes.size()); });
    if (written == 0) errno = EIO;  // no progress and no reason: not worth trying for ever
    if (written <= 0) fail("cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void for_each_name(int folder, const std::function<void(const std::string&)>& visit) {
  // A descriptor of its own, which closedir closes.
  OpenFile again = open_at(folder, ".", O_RDONLY | O_DIRECTORY);
  if (!again.is_open()) fail("cannot list");
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(again.number()), closedir);
  if (!listing) fail("cannot list");
  (void)again.release();  // the listing owns it now
  errno = 0;
  while (const dirent* const row = readdir(listing.get())) {
    const std::string name = row->d_name;
    if (name != "." && name != "..") visit(name);
    errno = 0;
  }
  if (errno != 0) fail("cannot list");
}

void throw_errno(const char* what, const std::string& name) {
  const int error = errno;  // before anything that may change it
  throw std::system_error(error, std::generic_category(), fmt::format("{} '{}'", what, name));
}

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

bool AtomicFile::commit() {
  if (uninterrupted([&] { return fsync(file_.number()); }) == -1) throw_errno("cannot sync", name_);
  // Network file systems report late write errors here. EINTR: Linux has closed it all the same.
  if (close(file_.release()) == -1 && errno != EINTR) throw_errno("cannot close", name_);
  if (!rename_unless_there(folder_, temporary_, name_)) return false;
  temporary_.clear();
  return true;
}

}  // namespace coconet::jit
