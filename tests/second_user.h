// What another user of the machine does, for tests that run as root; "nobody" is that user.
#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace coconet::test {

inline constexpr uid_t nobody = 65534;

/// Only root can act as another user; tests say with WARN what they leave out elsewhere.
inline bool can_be_nobody() {
  return geteuid() == 0;
}
inline constexpr const char* needs_root =
    "not run as root: the part of another user, which only root can play, is left out";

/// Whether the part of another user cannot be played, which is said then.
[[nodiscard]] inline bool lacks_root() {
  if (!can_be_nobody()) WARN(needs_root);
  return !can_be_nobody();
}

/// For good; whether that was possible.
inline bool become_nobody() {
  return setgroups(0, nullptr) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0;
}

/// A process, of user nobody where this one is root's, that calls `act` each time it is asked to.
class SecondUser {
 public:
  template <class Act>
  explicit SecondUser(const Act& act) {
    if (pipe(asked_) != 0 || pipe(done_) != 0) throw std::runtime_error("cannot make a pipe");
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("cannot fork");
    if (process_ > 0) {
      close(std::exchange(asked_[0], -1));
      close(std::exchange(done_[1], -1));
      return;
    }
    close(asked_[1]);
    close(done_[0]);
    if (can_be_nobody() && !become_nobody()) _exit(1);
    for (char word = 0; read(asked_[0], &word, 1) == 1;) {
      int result = -1;
      try {
        result = act();
      } catch (...) {
      }
      if (write(done_[1], &result, sizeof result) != sizeof result) _exit(1);
    }
    _exit(0);
  }
  SecondUser(const SecondUser&) = delete;
  SecondUser& operator=(const SecondUser&) = delete;
  ~SecondUser() {
    close(asked_[1]);
    while (waitpid(process_, nullptr, 0) == -1 && errno == EINTR) continue;
    close(done_[0]);
  }

  /// What `act` returned; -1: it threw.
  int act() {
    const char word = 0;
    int result = -1;
    if (write(asked_[1], &word, 1) != 1 || read(done_[0], &result, sizeof result) != sizeof result)
      throw std::runtime_error("the second user's process has ended");
    return result;
  }

 private:
  int asked_[2] = {-1, -1};
  int done_[2] = {-1, -1};
  pid_t process_ = -1;
};

/// This process's files are opened as nobody would while it lives; as whoever it is where that is
/// not root, who is refused what the mode of a file forbids.
class AsNobody {
 public:
  AsNobody() : is_root_(can_be_nobody()) {
    if (is_root_ && seteuid(nobody) != 0) throw std::runtime_error("cannot become nobody");
  }
  ~AsNobody() {
    if (is_root_ && seteuid(0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool is_root_;
};

}  // namespace coconet::test
