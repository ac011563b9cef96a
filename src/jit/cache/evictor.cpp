// The thread that evicts, and which of several processes does.
#include "jit/cache/evictor.h"

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

Evictor::Evictor(Limits limits, std::function<void(const std::string& problem)> complain)
    : limits_(limits), complain_(std::move(complain)) {}

Evictor::~Evictor() {
  part_with_thread();
}

// A forked process has the object, and not the thread.
void Evictor::part_with_thread() {
  if (!thread_.joinable()) return;
  if (process_ == getpid()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Evictor::start(std::shared_ptr<const CacheDirectory> directory) {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  if (evicting_ && process_ == getpid()) return;
  part_with_thread();
  evicting_ = true;
  const BlockedSignals inherited;
  try {
    process_ = getpid();
    thread_ = std::thread([this, evicted = std::move(directory)] { evict_while_wanted(*evicted); });
  } catch (const std::system_error&) {  // no more threads: the next entry tries again
    evicting_ = false;
  }
}

void Evictor::evict_while_wanted(const CacheDirectory& directory) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(wanted_, false)) {
        evicting_ = false;
        return;
      }
    }
    try {
      evict_if_elected(directory);
    } catch (const std::system_error& error) {
      complain_(error.what());
    }
  }
}

// A process that finds the directory too large during another one's eviction leaves it to that one, which looks again
// after it has released the lock: one of the two sees what the other did.
void Evictor::evict_if_elected(const CacheDirectory& directory) {
  bool again = true;
  while (again) {
    const std::optional<Eviction> done = evict_alone(directory, limits_);
    if (!done) return;
    if (done->removed.files > 0) {
      log_info("the kernel cache in '" + directory.path().string() +
               "' was too large: " + std::to_string(done->removed.files) + " entries removed, " +
               std::to_string(done->left.files) + " left");
    }
    if (limits_.exceeded_by(done->left)) return;  // by what the file system does not let go
    try {
      again = limits_.exceeded_by(update_stats(directory).totals);
    } catch (const std::system_error&) {  // no locks
      return;
    }
  }
}

}  // namespace coconet::jit
