// Handles of processes (pidfd, Linux 5.3) become readable when their process ends, however it does,
// and never stand for another one that has its number later.
#include "jit/comm/barrier/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

#include "jit/comm/barrier/membership.h"
#include "jit/config/quiet_thread.h"

namespace coconet::jit {
namespace {

constexpr int mirror_ms = 20;
constexpr int look_ms = 50;
constexpr int first_look_ms = 1;  // when ranks get to know each other
constexpr int first_looks = 50;

/// Of this process; processes of other namespaces have other numbers here.
std::uint64_t pid_namespace() {
  struct stat status = {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string name_of_process() {
  return fmt::format("{} {}", getpid(), pid_namespace());
}

ProcessStatus status_of_process(pid_t process) {
  // "4711 (name) T ...", where the name may have blanks and parentheses. The 19th number behind the
  // state is the start, in ticks.
  std::string line, skipped;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  ProcessStatus status;
  fields >> status.state;
  for (int field = 0; field < 18; ++field) fields >> skipped;
  double ticks = 0;
  if (fields >> ticks) status.start_s = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  if (status.state == 'Z' || status.state == 'X') status.state = 0;
  return status;
}

Watch::Watch(std::function<void(int rank)> lost)
    : lost_(std::move(lost)),
      changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_(start_without_signals([this] { run(); })) {}

Watch::~Watch() {
  if (!process_.is_this()) {
    forget_thread(thread_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake();
  thread_.join();
}

void Watch::add(int rank, std::string_view name) {
  const std::size_t blank = name.find(' ');
  pid_t process = 0;
  std::from_chars(name.data(), name.data() + std::min(blank, name.size()), process);
  if (blank == std::string_view::npos || name.substr(blank + 1) != fmt::to_string(pid_namespace()))
    return;
  OpenFile handle(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!handle.is_open()) {
    if (errno == ESRCH) lost_(rank);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    processes_.push_back({rank, process, std::move(handle)});
  }
  wake();
}

void Watch::mirror(const std::uint64_t* from, std::uint64_t* copy, std::size_t words) {
  {
    const std::lock_guard lock(mutex_);
    mirrors_.push_back({from, copy, words});
  }
  wake();
}

void Watch::end_mirror(const std::uint64_t* copy) {
  if (!process_.is_this()) return;  // the thread may have held the lock at the fork
  const std::lock_guard lock(mutex_);
  std::erase_if(mirrors_, [&](const Mirror& mirror) { return mirror.copy == copy; });
}

void Watch::look_regularly(std::function<void()> look) {
  {
    const std::lock_guard lock(mutex_);
    look_ = std::move(look);
  }
  wake();
}

bool Watch::is_stopped(int rank) {
  pid_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(processes_, rank, &Process::rank);
    if (found == processes_.end()) return false;
    number = found->number;
  }
  const char state = status_of_process(number).state;
  return state == 'T' || state == 't';
}

void Watch::wake() const {
  const std::uint64_t one = 1;
  (void)!write(changed_.number(), &one, sizeof one);
}

void Watch::copy_mirrors() {
  for (const Mirror& mirror : mirrors_) {
    for (std::size_t word = 0; word < mirror.words; ++word) {
      const std::uint64_t notice = __atomic_load_n(mirror.from + word, __ATOMIC_ACQUIRE);
      if (notice != __atomic_load_n(mirror.copy + word, __ATOMIC_RELAXED))
        __atomic_store_n(mirror.copy + word, notice, __ATOMIC_RELEASE);
    }
  }
}

void Watch::run() {
  int looks = 0;
  for (;;) {
    std::vector<pollfd> polled{{changed_.number(), POLLIN, 0}};
    std::vector<int> ranks{-1};
    // Without a descriptor to be woken by, it looks itself.
    int limit = !changed_.is_open() ? look_ms : -1;
    std::function<void()> look;
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      for (const Process& process : processes_) {
        polled.push_back({process.handle.number(), POLLIN, 0});
        ranks.push_back(process.rank);
      }
      look = look_;
      if (look) limit = looks < first_looks ? first_look_ms : look_ms;
      if (!mirrors_.empty()) limit = limit < 0 ? mirror_ms : std::min(limit, mirror_ms);
      copy_mirrors();
    }
    const int ready = poll(polled.data(), polled.size(), limit);
    if (look) {
      look();
      ++looks;
    }
    if (ready <= 0) continue;
    std::uint64_t count = 0;
    if (polled[0].revents != 0) (void)!read(changed_.number(), &count, sizeof count);
    for (std::size_t at = 1; at < polled.size(); ++at) {
      if (polled[at].revents == 0) continue;
      lost_(ranks[at]);
      const std::lock_guard lock(mutex_);
      std::erase_if(processes_, [&](const Process& one) { return one.rank == ranks[at]; });
    }
  }
}

}  // namespace coconet::jit
