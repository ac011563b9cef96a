// A thread that sleeps until another rank's process ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "coconet/export.h"
#include "jit/config/open_file.h"
#include "jit/config/own_process.h"

namespace coconet::jit {

/// What the system says of a process.
struct ProcessStatus {
  /// The letter of what it does: T where a signal has stopped it, t where a debugger has; 0 where
  /// it has ended, or the system does not say.
  char state = 0;
  double start_s = 0;  ///< from the system's start to its own; 0 where the system does not say
};
[[nodiscard]] COCONET_API ProcessStatus status_of_process(pid_t process);

class Watch {
 public:
  /// `lost` is called with the rank of a process that has ended, on the thread of this watch.
  /// Throws std::system_error when there can be no thread.
  explicit Watch(std::function<void(int rank)> lost);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// Where the kernel or the PID namespace of `name` does not allow it, nobody is watched: waits
  /// for that rank end by their deadline.
  void add(int rank, std::string_view name);

  /// Keeps `copy`, of `words`, as `from` is, give or take 20 ms.
  void mirror(const std::uint64_t* from, std::uint64_t* copy, std::size_t words);
  void end_mirror(const std::uint64_t* copy);

  /// Calls `look` every 50 ms from here on, at first every millisecond, on the thread of this
  /// watch.
  void look_regularly(std::function<void()> look);

  /// Of the process of `rank`: whether a signal or a debugger has stopped it. False where that is
  /// unknown.
  [[nodiscard]] bool is_stopped(int rank);

 private:
  struct Process {
    int rank;
    pid_t number;
    OpenFile handle;
  };
  struct Mirror {
    const std::uint64_t* from;
    std::uint64_t* copy;
    std::size_t words;
  };
  void run();
  void wake() const;
  void copy_mirrors();

  OwnProcess process_;  ///< which has the thread
  std::function<void(int rank)> lost_;
  std::mutex mutex_;
  std::vector<Process> processes_;
  std::vector<Mirror> mirrors_;
  std::function<void()> look_;
  bool ends_ = false;
  OpenFile changed_;  ///< an eventfd
  std::thread thread_;
};

}  // namespace coconet::jit
