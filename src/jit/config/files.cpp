// Writing files as a whole, and what is no file through.
#include "jit/config/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/leftovers.h"
#include "jit/config/parse.h"

namespace coconet::jit {
namespace {

namespace fs = std::filesystem;

/// Why a file is not written that could be: a clause.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

fs::path directory_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

void write_beside(const fs::path& file, std::string_view text) {
  const fs::path directory = directory_of(file);
  // The file's own name may be as long as names can be.
  const std::string prefix = fmt::format(".{}.tmp-", file.filename().string().substr(0, 200));
  try_remove_leftovers(directory, prefix);
  OpenFile lock;
  OpenFile opened;
  const fs::path temporary = make_locked(
      [&] {
        fs::path made = directory / fmt::format("{}{:08x}", prefix, std::random_device()());
        opened = open_at(AT_FDCWD, made.string(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (!opened.is_open()) throw_errno("cannot create", made.string());
        return made;
      },
      lock);
  try {
    write_bytes(opened.number(), text);
    fs::rename(temporary, file);
  } catch (const std::system_error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

/// A pipe whose reader is gone is an error of write(2), not the end of the process, while it lives.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  }
  ~NoPipeSignal() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// Waits until `descriptor` takes PIPE_BUF bytes at once.
void await_room(int descriptor, const fs::path& file) {
  pollfd room{descriptor, POLLOUT, 0};
  const std::chrono::milliseconds limit = config().timeout;
  const int milliseconds = static_cast<int>(
      std::min<std::chrono::milliseconds::rep>(limit.count(), std::numeric_limits<int>::max()));
  if (uninterrupted([&] { return poll(&room, 1, milliseconds); }) != 0) return;
  throw Refusal(fmt::format("nobody has read '{}' for {} s, the limit that COCONET_TIMEOUT_S sets",
                            file.string(), std::chrono::duration<double>(limit).count()));
}

/// `write_bytes` to what may be a pipe that takes no more for now.
void write_through(int descriptor, const fs::path& file, std::string_view text) {
  const NoPipeSignal no_signal;
  while (!text.empty()) {
    await_room(descriptor, file);
    const std::size_t most = std::min(text.size(), std::size_t{PIPE_BUF});
    const ssize_t written = uninterrupted([&] { return write(descriptor, text.data(), most); });
    if (written == -1 && errno != EAGAIN) throw_errno("cannot write to", file.string());
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A device or a pipe, opened to be written; a pipe's reader may be a little late.
OpenFile open_to_write_through(const fs::path& file) {
  constexpr std::chrono::seconds patience{10};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    OpenFile opened =
        open_at(AT_FDCWD, file.string(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (opened.is_open()) return opened;
    if (errno != ENXIO) throw_errno("cannot open", file.string());
    if (std::chrono::steady_clock::now() > deadline)
      throw Refusal(fmt::format("nobody reads '{}'", file.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// The number of this process's descriptor that `file` names, as /dev/fd/3 does; -1 where it names
/// none.
int descriptor_named(const fs::path& file) {
  std::error_code error, no_proc;
  const fs::path directory = fs::canonical(directory_of(file), error);
  if (directory != fs::canonical("/proc/self/fd", no_proc) || error || no_proc) return -1;
  int number = -1;
  return parse_number(file.filename().string(), number) ? number : -1;
}

/// In a directory that everybody may write in, a link or a pipe leads where its owner wants: only
/// one of this user, or of whom the directory belongs to, is taken.
void require_trusted(const fs::path& file, const struct stat& status) {
  struct stat around {};
  if (stat(directory_of(file).c_str(), &around) == -1) throw_errno("cannot look at", file.string());
  if ((around.st_mode & S_IWOTH) == 0 || status.st_uid == geteuid() ||
      status.st_uid == around.st_uid)
    return;
  throw Refusal(fmt::format("another user made '{}', in a directory that everybody may write in",
                            file.string()));
}

void write_to(fs::path file, std::string_view text) {
  constexpr int most_links = 40;  // as the kernel's
  for (int links = 0; links <= most_links; ++links) {
    if (const int number = descriptor_named(file); number != -1) {
      std::fflush(stdout);  // what was printed before comes before
      return write_through(number, file, text);
    }
    struct stat status {};
    if (lstat(file.c_str(), &status) == -1 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
      return write_beside(file, text);
    require_trusted(file, status);
    if (!S_ISLNK(status.st_mode)) {
      const OpenFile opened = open_to_write_through(file);
      return write_through(opened.number(), file, text);
    }
    file = file.parent_path() / fs::read_symlink(file);
  }
  errno = ELOOP;
  throw_errno("cannot follow", file.string());
}

}  // namespace

void write_atomically(const fs::path& file, std::string_view text, std::string_view option) {
  try {
    write_to(file, text);
  } catch (const Refusal& refusal) {
    throw BackendError(fmt::format("Cannot write the file '{}' of {}: {}.", file.string(), option,
                                   refusal.what()));
  } catch (const std::system_error& error) {
    throw BackendError(
        fmt::format("Cannot write the file '{}' of {} ({}): is its directory there, and writable?",
                    file.string(), option, error.code().message()));
  }
}

}  // namespace coconet::jit
