// A launcher's children have their rank in their environment, which /proc shows to their user.
#include "jit/mpi/launched.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "jit/mpi/door.h"

namespace coconet::jit {

namespace {

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// What `variable` is in the environment of `process`.
std::optional<int> number_of(pid_t process, std::string_view variable) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.size() > variable.size() && entry.starts_with(variable) &&
        entry[variable.size()] == '=')
      return number_of(std::string_view(entry).substr(variable.size() + 1));
  }
  return {};
}

/// The letter of what `process` does: T where it is stopped; 0 where it has ended.
char state_of(pid_t process) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), line);
  const std::size_t at = line.rfind(')');
  const char state = at == std::string::npos || at + 2 >= line.size() ? '\0' : line[at + 2];
  return state == 'Z' || state == 'X' ? '\0' : state;
}

/// What one thread sees of this process's siblings from time to time.
class Siblings {
 public:
  /// `variable` holds their ranks, and `is_whole` says that all `size` ranks of the job are on this
  /// node.
  Siblings(const char* variable, int rank, int size, bool is_whole)
      : variable_(variable), rank_(rank), size_(size), is_whole_(is_whole) {}

  void look() {
    std::error_code error;
    const std::string threads = fmt::format("/proc/{}/task", getppid());
    const std::filesystem::directory_iterator end;
    for (std::filesystem::directory_iterator at(threads, error); !error && at != end;
         at.increment(error)) {
      std::ifstream file(at->path() / "children");
      for (pid_t child = 0; file >> child;) {
        if (processes_.contains(child)) continue;
        const std::optional<int> rank = number_of(child, variable_);
        if (rank && *rank >= 0 && *rank < size_ && *rank != rank_) processes_[child] = *rank;
      }
    }
    for (const auto& [process, rank] : processes_) {
      if (first_ended_ < 0 && state_of(process) == 0) first_ended_ = rank;
    }
  }

  /// Who keeps the others, for people.
  [[nodiscard]] std::string find_stuck() const {
    std::vector<int> stopped, unseen;
    std::set<int> seen{rank_};
    for (const auto& [process, rank] : processes_) {
      seen.insert(rank);
      if (const char state = state_of(process); state == 'T' || state == 't')
        stopped.push_back(rank);
    }
    for (int rank = 0; is_whole_ && rank < size_; ++rank) {
      if (!seen.contains(rank)) unseen.push_back(rank);
    }
    std::ranges::sort(stopped);
    if (!stopped.empty())
      return fmt::format("stopped by a signal or a debugger: {}", name_ranks(stopped));
    // Those ended before this process looked; of the others whoever did first, for the rest follow.
    if (!unseen.empty()) return fmt::format("without a process: {}", name_ranks(unseen));
    if (first_ended_ >= 0) return fmt::format("whose process has ended: rank {}", first_ended_);
    return {};
  }

 private:
  const char* variable_;
  int rank_, size_;
  bool is_whole_;
  std::map<pid_t, int> processes_;  ///< their ranks
  int first_ended_ = -1;
};

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? std::nullopt : number_of(text);
}

}  // namespace

std::shared_ptr<Membership> watch_launched(std::chrono::milliseconds timeout) {
  struct Launcher {
    const char *rank, *size, *local_size;
  };
  constexpr std::array<Launcher, 3> launchers{
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
       {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"}}};
  for (const Launcher& launcher : launchers) {
    const std::optional<int> rank = number_in(launcher.rank), size = number_in(launcher.size);
    if (!rank || !size || *rank < 0 || *rank >= *size) continue;
    auto made = make_private_membership(*rank, *size, timeout);
    const auto siblings = std::make_shared<Siblings>(launcher.rank, *rank, *size,
                                                     number_in(launcher.local_size) == size);
    made->listen(
        {[siblings] { siblings->look(); }, {}, [siblings] { return siblings->find_stuck(); }});
    return made;
  }
  return make_private_membership(0, 1, timeout);
}

}  // namespace coconet::jit
