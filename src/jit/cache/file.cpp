// Thin layers over system calls.
#include "jit/cache/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
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

// Of the last access and of the last change.
std::array<timespec, 2> times_of(FileTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec spec{static_cast<time_t>(seconds.time_since_epoch().count()),
                      static_cast<long>((time - seconds).count())};
  return {spec, spec};
}

}  // namespace

OpenFile::~OpenFile() {
  if (number_ != -1) close(number_);
}

FileTime time_of(const struct stat& status) {
  return FileTime(std::chrono::seconds(status.st_mtim.tv_sec) +
                  std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

FileTime time_now() {
  return std::chrono::system_clock::now();
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
    if (got == -1) throw std::system_error(errno, std::generic_category(), "cannot read");
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
    if (written <= 0) throw std::system_error(errno, std::generic_category(), "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void for_each_name(int folder, const std::function<void(const std::string&)>& visit) {
  // A descriptor of its own, which closedir closes.
  OpenFile again = open_at(folder, ".", O_RDONLY | O_DIRECTORY);
  if (!again.is_open()) throw std::system_error(errno, std::generic_category(), "cannot list");
  DIR* const opened = fdopendir(again.number());
  if (opened == nullptr) throw std::system_error(errno, std::generic_category(), "cannot list");
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opened, closedir);
  (void)again.release();  // the listing owns it now
  errno = 0;
  while (const dirent* const row = readdir(listing.get())) {
    const std::string name = row->d_name;
    if (name != "." && name != "..") visit(name);
    errno = 0;
  }
  if (errno != 0) throw std::system_error(errno, std::generic_category(), "cannot list");
}

void throw_errno(const char* what, const std::string& name) {
  const int error = errno;  // before anything that may change it
  throw std::system_error(error, std::generic_category(), std::string(what) + " '" + name + "'");
}

}  // namespace coconet::jit
