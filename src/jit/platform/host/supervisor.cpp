// How a program is run in a process with other plans for its children. The application may ignore
// SIGCHLD, in which case the system keeps no exit status, or wait for any child, and so takes it.
// Neither concerns the children of another process, and the supervisor itself has no signal for its
// end, so that only who asks for such children (__WALL) can wait for it.
//
// The supervisor is a clone of one thread that shares the memory. A fork would copy the page tables
// (of a process with 2 GB in 0.7 s, where this takes 1.5 ms), then each page that the application
// writes, and would not be borne by memory that is registered with a network card or a GPU. A vfork
// would hold its thread where neither signals nor debuggers reach it for as long as the program
// runs. Another program would have to be found, where the library is linked into somebody else's.
// The price: what kills a process for the memory that it shares, as the system does when there is
// no more, kills the supervisor, too. Then the program is killed, but not what it has started, and
// the directory is removed by the next process that makes one.
//
// So nothing here may touch what belongs to the thread or to the C library: these are system calls
// only, on a stack of their own. The file is compiled without sanitizers.
#include "jit/platform/host/supervisor.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "jit/config/open_file.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace coconet::jit {
namespace {

constexpr std::size_t stack_bytes = std::size_t{128} << 10;
constexpr std::size_t starter_stack_bytes = std::size_t{16} << 10;  ///< the upper part of it
constexpr int deepest_folder = 8;
constexpr int ended_signal = SIGHUP;  ///< tells that the thread above has ended
constexpr std::int64_t second = 1'000'000'000;

template <class... Arguments>
long call(long number, Arguments... arguments) {
  return syscall(number, (long)arguments...);  // NOLINT: of numbers and pointers
}

[[noreturn]] void end_process() {
  for (;;) call(SYS_exit_group, 0);
}

std::int64_t now_ns() {
  timespec time;
  call(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time.tv_sec * second + time.tv_nsec;
}

void pause_ms(long milliseconds) {
  const timespec time{0, milliseconds * 1'000'000};
  call(SYS_nanosleep, &time, nullptr);
}

/// An entry of SYS_getdents64.
struct Entry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t bytes;
  std::uint8_t type;
  char name[1];
};

/// Calls `visit(name)` for every name in `folder` but "." and "..".
template <class Visit>
void for_each_entry(int folder, Visit visit) {
  alignas(Entry) char entries[2048];
  call(SYS_lseek, folder, 0, SEEK_SET);
  for (long got; (got = call(SYS_getdents64, folder, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(entries + at);
      at += entry->bytes;
      const char* const name = entry->name;
      if (name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0))) continue;
      visit(name);
    }
  }
}

/// Removes all that is in `folder`; false where something stays.
bool clear(int folder, int depth) {
  bool is_empty = false, removes = true;
  while (!is_empty && removes) {
    is_empty = true;
    removes = false;
    for_each_entry(folder, [&](const char* name) {
      is_empty = false;
      if (call(SYS_unlinkat, folder, name, 0) == 0) {
        removes = true;
        return;
      }
      if (depth == deepest_folder) return;
      const long inner =
          call(SYS_openat, folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
      if (inner < 0) return;
      (void)clear(static_cast<int>(inner), depth + 1);
      call(SYS_close, inner);
      if (call(SYS_unlinkat, folder, name, AT_REMOVEDIR) == 0) removes = true;
    });
  }
  return is_empty;
}

class Supervisor {
 public:
  Supervisor(SupervisorTask& task, char* starter_stack, pid_t parent)
      : task_(task), report_(*task.report), starter_stack_(starter_stack), parent_(parent) {}

  void run() {
    begin();
    if (make_directory() && write_input() && start()) {
      await();
      read_output();
    }
    remove_directory();
  }

 private:
  /// From here on the end of the thread above is noticed.
  void begin() {
    call(SYS_prctl, PR_SET_PDEATHSIG, ended_signal, 0, 0, 0);
    call(SYS_prctl, PR_SET_NAME, "coconet-compile", 0, 0, 0);
    call(SYS_setpgid, 0, 0);  // what ends the application's group is for that
    // No handler of the application's runs here, nor in the program before it has begun.
    const unsigned long by_default[8] = {};  // as the system lays out a sigaction of SIG_DFL
    for (int signal = 1; signal <= 64; ++signal)
      call(SYS_rt_sigaction, signal, by_default, nullptr, sizeof(std::uint64_t));
    // Others wait for the end of sockets and pipes of the application.
    const int low = task_.output < task_.printed ? task_.output : task_.printed;
    const int high = task_.output < task_.printed ? task_.printed : task_.output;
    close_range(0, low - 1);
    close_range(low + 1, high - 1);
    close_range(high + 1, -1);
    // The program's first three, in this order where they are all free.
    null_ = static_cast<int>(call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0));
  }

  /// Closes `first` to `last`, -1: all others.
  static void close_range(int first, int last) {
    if (last != -1 && last < first) return;
    if (call(SYS_close_range, first < 0 ? 0 : first, static_cast<unsigned>(last), 0) == 0) return;
    const long folder =
        call(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder < 0) return;
    for_each_entry(static_cast<int>(folder), [&](const char* name) {
      int number = 0;
      for (; *name >= '0' && *name <= '9'; ++name) number = 10 * number + *name - '0';
      if (number != folder && number >= first && (last == -1 || number <= last))
        call(SYS_close, number);
    });
    call(SYS_close, folder);
  }

  bool fail(long error) {
    report_.error = static_cast<int>(error);
    return false;
  }
  bool fail() { return fail(errno); }

  [[nodiscard]] bool is_abandoned() const { return call(SYS_getppid) != parent_; }

  /// The directory is locked while it is there (leftovers.h). Until then another process may lock
  /// it, because it takes it for a leftover, and remove it; then it is made again. On a busy
  /// machine that one may have to wait for a processor in between.
  bool make_directory() {
    report_.reached = Stage::making_directory;
    constexpr int most_attempts = 30'000;  // a millisecond each, at least
    for (int attempt = 0; attempt < most_attempts && !is_abandoned(); ++attempt) {
      if (attempt > 0) pause_ms(1);
      if (call(SYS_mkdirat, AT_FDCWD, task_.directory, 0700) == -1 &&
          (errno != EEXIST || attempt == 0))
        return fail();
      // Without O_CLOEXEC: the program, too, keeps the lock.
      folder_ = static_cast<int>(
          call(SYS_openat, AT_FDCWD, task_.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
      if (folder_ == -1 && errno != ENOENT) return fail_without(errno);
      if (folder_ == -1) continue;
      // Some file systems have no locks.
      if ((call(SYS_flock, folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && is_there())
        return true;
      call(SYS_close, folder_);
      folder_ = -1;
    }
    return fail(EBUSY);
  }

  bool fail_without(int error) {
    call(SYS_unlinkat, AT_FDCWD, task_.directory, AT_REMOVEDIR);
    return fail(error);
  }

  /// Whether the open directory still has its name, and is this user's.
  [[nodiscard]] bool is_there() const {
    struct statx status;
    if (call(SYS_statx, folder_, "", AT_EMPTY_PATH, STATX_NLINK | STATX_UID, &status) == -1)
      return true;  // a system without that call
    return status.stx_nlink != 0 && status.stx_uid == call(SYS_geteuid);
  }

  bool write_input() {
    report_.reached = Stage::writing_input;
    if (task_.input_name == nullptr) return true;
    const long file = call(SYS_openat, folder_, task_.input_name,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return fail();
    if (!write_all(static_cast<int>(file), task_.input, task_.input_bytes)) return fail();
    return call(SYS_close, file) == 0 || fail();
  }

  static bool write_all(int file, const char* bytes, std::size_t count) {
    while (count > 0) {
      const long written = call(SYS_write, file, bytes, count);
      if (written == 0) errno = EIO;
      if (written <= 0) return false;
      bytes += written;
      count -= static_cast<std::size_t>(written);
    }
    return true;
  }

  bool start() {
    report_.reached = Stage::starting;
    if (is_abandoned()) return false;
    if (null_ == -1) return fail(ENOENT);
    self_ = static_cast<pid_t>(call(SYS_getpid));
    const int sharing = task_.shares_memory ? CLONE_VM | CLONE_VFORK : 0;
    // The report has the program's number before the program runs: whoever kills this process from
    // then on leaves to `run_program` what it needs to end the program's group.
    const pid_t program = clone(
        [](void* supervisor) -> int { static_cast<Supervisor*>(supervisor)->become_program(); },
        starter_stack_, sharing | CLONE_PARENT_SETTID | SIGCHLD, this, &report_.program);
    if (program == -1) return fail();
    call(SYS_setpgid, program, program);  // whoever of the two comes first
    return true;
  }

  /// In a process of its own.
  [[noreturn]] void become_program() {
    call(SYS_setpgid, 0, 0);
    call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (call(SYS_getppid) != self_) end_process();
    // From where they may be to 0, 1 and 2, by numbers that are neither.
    const long null = call(SYS_fcntl, null_, F_DUPFD_CLOEXEC, 3);
    const long printed = call(SYS_fcntl, task_.printed, F_DUPFD_CLOEXEC, 3);
    const long folder = folder_ > 2 ? folder_ : call(SYS_fcntl, folder_, F_DUPFD, 3);
    if (null >= 0 && printed >= 0 && folder >= 0 && call(SYS_dup3, null, 0, 0) == 0 &&
        call(SYS_dup3, printed, 1, 0) == 1 && call(SYS_dup3, printed, 2, 0) == 2) {
      const std::uint64_t none = 0;
      call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
      call(SYS_execve, task_.arguments[0], task_.arguments, task_.environment);
    }
    report_.error = errno;
    end_process();
  }

  void await() {
    report_.reached = Stage::running;
    const std::int64_t deadline = now_ns() + task_.timeout_ns;
    constexpr std::uint64_t one = 1;
    constexpr std::uint64_t awaited = one << (SIGCHLD - 1) | one << (ended_signal - 1);
    while (!reap(WNOHANG)) {
      const std::int64_t left = deadline - now_ns();
      if (is_abandoned() || left <= 0) {
        report_.timed_out = true;
        call(SYS_kill, -report_.program, SIGKILL);
        (void)reap(0);
        return;
      }
      const timespec time{left / second, left % second};
      call(SYS_rt_sigtimedwait, &awaited, nullptr, &time, sizeof awaited);
    }
  }

  /// Whether the program has ended. Once it is reaped, its number may be another process's.
  bool reap(int options) {
    siginfo_t ended{};
    call(SYS_waitid, P_PID, report_.program, &ended, WEXITED | WNOWAIT | options, nullptr);
    if (ended.si_pid == 0) return false;
    report_.program = 0;
    call(SYS_wait4, ended.si_pid, &report_.wait_status, 0, nullptr);
    return true;
  }

  void read_output() {
    if (report_.error != 0) {  // it has not become the program
      report_.reached = Stage::starting;
      return;
    }
    if (report_.timed_out || report_.wait_status != 0) return;
    report_.reached = Stage::reading_output;
    if (task_.output_name != nullptr && !copy_output()) return;
    report_.reached = Stage::done;
  }

  /// A file that is not there is an empty output.
  bool copy_output() {
    const long file = call(SYS_openat, folder_, task_.output_name,
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (file < 0) return errno == ENOENT || fail();
    char block[16384];
    long got = 0;
    while ((got = call(SYS_read, file, block, sizeof block)) > 0) {
      if (!write_all(task_.output, block, static_cast<std::size_t>(got))) return fail();
    }
    return got == 0 || fail();
  }

  /// Processes that were killed may still write for a moment.
  void remove_directory() const {
    if (folder_ == -1) return;
    constexpr int most_attempts = 1000;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      (void)clear(folder_, 0);
      if (call(SYS_unlinkat, AT_FDCWD, task_.directory, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
      pause_ms(1);
    }
  }

  SupervisorTask& task_;
  SupervisorReport& report_;
  char* starter_stack_;
  pid_t parent_;
  pid_t self_ = 0;
  int folder_ = -1;
  int null_ = -1;
};

/// What a clone gets.
struct Begin {
  SupervisorTask* task;
  char* stack_end;
  pid_t parent;
};

int supervisor_main(void* begin) {
  const auto& [task, stack_end, parent] = *static_cast<const Begin*>(begin);
  Supervisor(*task, stack_end, parent).run();
  end_process();
}

}  // namespace

int supervise(SupervisorTask& task, int& ended_with) {
  void* const stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return errno;
  char* const end = static_cast<char*>(stack) + stack_bytes;
  Begin begin{&task, end, getpid()};
  const auto start = [&] {
    return clone(supervisor_main, end - starter_stack_bytes, task.shares_memory ? CLONE_VM : 0,
                 &begin);
  };
  pid_t supervisor = start();
  if (supervisor == -1 && errno == EINVAL && task.shares_memory) {  // an emulated system
    task.shares_memory = false;
    supervisor = start();
  }
  const int error = supervisor == -1 ? errno : 0;
  ended_with = 0;
  if (supervisor != -1)
    (void)uninterrupted([&] { return waitpid(supervisor, &ended_with, __WALL); });
  munmap(stack, stack_bytes);
  return error;
}

}  // namespace coconet::jit
