// A launcher's children have their rank in their environment, which /proc shows to their user.
#include "jit/mpi/launched.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "jit/comm/barrier/watch.h"
#include "jit/config/launcher.h"
#include "jit/config/parse.h"
#include "jit/mpi/door.h"

namespace coconet::jit {

namespace {

/// What `variable` is in the environment of `process`.
std::optional<int> number_of(pid_t process, std::string_view variable) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  for (std::string entry; std::getline(file, entry, '\0');) {
    int number = 0;
    if (entry.size() > variable.size() && entry.starts_with(variable) &&
        entry[variable.size()] == '=')
      return parse_number(entry.substr(variable.size() + 1), number) ? std::optional(number)
                                                                     : std::nullopt;
  }
  return {};
}

/// Seconds since the system's start.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// How long `process` has lived; not at all where it has ended meanwhile, and nothing is left of
/// it.
double lived_s(pid_t process) {
  const double start_s = status_of_process(process).start_s;
  return start_s > 0 ? now_s() - start_s : 0;
}

/// What is seen of this process's siblings from time to time.
class Siblings {
 public:
  /// `variable` holds their ranks, and `is_whole` says that all `size` ranks of the job are on this
  /// node. Each of them gives up after `timeout`.
  Siblings(const char* variable, int rank, int size, bool is_whole,
           std::chrono::milliseconds timeout)
      : variable_(variable), rank_(rank), size_(size), is_whole_(is_whole), timeout_(timeout) {}

  void look() {
    const std::lock_guard lock(mutex_);
    std::error_code error;
    const std::string threads = fmt::format("/proc/{}/task", getppid());
    const std::filesystem::directory_iterator end;
    for (std::filesystem::directory_iterator at(threads, error); !error && at != end;
         at.increment(error)) {
      std::ifstream file(at->path() / "children");
      for (pid_t child = 0; file >> child;) {
        if (processes_.contains(child)) continue;
        const std::optional<int> rank = number_of(child, variable_);
        if (rank && *rank >= 0 && *rank < size_ && *rank != rank_)
          processes_[child] = {*rank, now_s() - lived_s(child)};
      }
    }
    for (const auto& [process, sibling] : processes_) {
      if (first_ended_ >= 0 || status_of_process(process).state != 0) continue;
      first_ended_ = sibling.rank;
      first_lived_s_ = now_s() - sibling.start_s;
    }
  }

  /// Who keeps the others, for people.
  [[nodiscard]] std::string find_stuck() {
    const std::lock_guard lock(mutex_);
    std::vector<int> stopped, unseen;
    std::set<int> seen{rank_};
    for (const auto& [process, sibling] : processes_) {
      seen.insert(sibling.rank);
      if (const char state = status_of_process(process).state; state == 'T' || state == 't')
        stopped.push_back(sibling.rank);
    }
    for (int rank = 0; is_whole_ && rank < size_; ++rank) {
      if (!seen.contains(rank)) unseen.push_back(rank);
    }
    std::ranges::sort(stopped);
    if (!stopped.empty())
      return fmt::format("stopped by a signal or a debugger: {}", name_ranks(stopped));
    // Those ended before this process looked; of the others whoever did first, for the rest follow.
    if (!unseen.empty()) return fmt::format("without a process: {}", name_ranks(unseen));
    // One that has lived as long as its time to wait, and about as long as this process, has given
    // up as this one does now.
    const double timeout_s = std::chrono::duration<double>(timeout_).count();
    if (first_ended_ >= 0 &&
        first_lived_s_ < std::max(timeout_s, lived_s(getpid()) - timeout_s / 4))
      return fmt::format("whose process has ended: rank {}", first_ended_);
    return {};
  }

 private:
  std::mutex mutex_;
  const char* variable_;
  int rank_, size_;
  bool is_whole_;
  std::chrono::milliseconds timeout_;
  struct Sibling {
    int rank;
    double start_s;
  };
  std::map<pid_t, Sibling> processes_;
  int first_ended_ = -1;
  double first_lived_s_ = 0;
};

}  // namespace

FarRanks launched_ranks(std::chrono::milliseconds timeout) {
  const Launched told = told_by_launcher();
  if (told.ranks == 0) return {};
  const auto siblings = std::make_shared<Siblings>(told.rank_variable, told.rank, told.ranks,
                                                   told.ranks_of_node == told.ranks, timeout);
  return {.answer = [siblings] { siblings->look(); },
          .find_stuck = [siblings] { return siblings->find_stuck(); }};
}

std::shared_ptr<Membership> watch_launched(std::chrono::milliseconds timeout) {
  FarRanks launched = launched_ranks(timeout);
  if (!launched.answer) return make_private_membership(0, 1, timeout);
  const Launched told = told_by_launcher();
  auto made = make_private_membership(told.rank, told.ranks, timeout);
  made->listen(std::move(launched));
  return made;
}

}  // namespace coconet::jit
