// Temporary file, write, sync, rename; and directories of mode 0700.
#include "jit/cache/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

namespace coconet::jit {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  const int error = errno;  // before anything that may change it
  throw std::system_error(error, std::generic_category(),
                          std::string(what) + " '" + path.string() + "'");
}

// Some calls are interrupted by signals that the application handles; they are simply made again.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

std::filesystem::path temporary_name(const std::filesystem::path& target) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string name = host.data();
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  std::random_device random;
  name = ".tmp-" + name.substr(0, 64) + "-" + std::to_string(getpid()) + "-" +
         std::to_string(random());
  return target.parent_path() / name;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  // O_EXCL: a name that exists belongs to somebody else, so another one is drawn.
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::filesystem::path candidate = temporary_name(target_);
    descriptor_ = uninterrupted(
        [&] { return open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
    if (descriptor_ != -1) {
      temporary_ = std::move(candidate);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("cannot create a file beside", target_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ != -1) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (written == 0) errno = EIO;  // no progress and no reason: not worth trying for ever
    if (written <= 0) fail("cannot write", temporary_);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return fsync(descriptor_); }) == -1) fail("cannot sync", temporary_);
  // Network file systems report late write errors at close. After EINTR the descriptor is gone on Linux.
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) == -1 && errno != EINTR) fail("cannot close", temporary_);
  if (rename(temporary_.c_str(), target_.c_str()) == -1) fail("cannot rename to", target_);
  temporary_.clear();
}

void create_private_directories(const std::filesystem::path& directory) {
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  const std::filesystem::path parent = directory.parent_path();
  // From the leaf up, so that an ancestor that exists is never asked about: it may be read-only or hidden.
  if (errno != ENOENT || parent.empty() || parent == directory)
    fail("cannot create the directory", directory);
  create_private_directories(parent);
  if (mkdir(directory.c_str(), 0700) == -1 && errno != EEXIST)
    fail("cannot create the directory", directory);
}

}  // namespace coconet::jit
