// The thread that sweeps, and who of several processes does.
#include "jit/cache/sweeper.h"

#include <signal.h>
#include <unistd.h>

#include <optional>
#include <system_error>
#include <utility>

#include "jit/config/log.h"

namespace coconet::jit {
namespace {

// The application's signal handlers run on its own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Sweeper::Sweeper(Limits limits, std::function<void(const std::string& problem)> complain)
    : limits_(limits), complain_(std::move(complain)) {}

Sweeper::~Sweeper() {
  part_with_thread();
}

// A forked process has the object, and not the thread.
void Sweeper::part_with_thread() {
  if (!thread_.joinable()) return;
  if (process_ == getpid()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Sweeper::start(std::shared_ptr<const CacheDirectory> directory) {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  if (sweeping_ && process_ == getpid()) return;
  part_with_thread();
  sweeping_ = true;
  const BlockedSignals inherited;
  try {
    process_ = getpid();
    thread_ = std::thread([this, swept = std::move(directory)] { sweep_while_wanted(*swept); });
  } catch (const std::system_error&) {  // no more threads: the next entry tries again
    sweeping_ = false;
  }
}

void Sweeper::sweep_while_wanted(const CacheDirectory& directory) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(wanted_, false)) {
        sweeping_ = false;
        return;
      }
    }
    try {
      sweep_if_elected(directory);
    } catch (const std::system_error& error) {
      complain_(error.what());
    }
  }
}

// Who finds the directory too large when a sweep is under way leaves it to the sweeper, which looks again after it has
// given back its office: one of the two sees what the other did.
void Sweeper::sweep_if_elected(const CacheDirectory& directory) {
  bool again = true;
  while (again) {
    const std::optional<Sweep> done = sweep_alone(directory, limits_);
    if (!done) return;
    if (done->removed.files > 0) {
      log_info("the kernel cache in '" + directory.path().string() +
               "' was too large: " + std::to_string(done->removed.files) + " entries removed, " +
               std::to_string(done->left.files) + " left");
    }
    if (limits_.exceeded_by(done->left)) return;  // by what the file system does not let go
    try {
      again = limits_.exceeded_by(update_ledger(directory).totals);
    } catch (const std::system_error&) {  // no locks
      return;
    }
  }
}

}  // namespace coconet::jit
