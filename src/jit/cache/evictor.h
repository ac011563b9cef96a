// Evicts entries in the background: in a thread, and in one process at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "jit/cache/directory.h"
#include "jit/cache/evict.h"

namespace coconet::jit {

class Evictor {
 public:
  /// The thread calls `complain` with what the file system refuses.
  Evictor(Limits limits, std::function<void(const std::string& problem)> complain);
  /// Waits for an eviction that is under way.
  ~Evictor();
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  /// Brings `directory` within its limits, without waiting: by this process, or by one that is at it already.
  void start(std::shared_ptr<const CacheDirectory> directory);

 private:
  void part_with_thread();
  void evict_while_wanted(const CacheDirectory& directory);
  void evict_if_elected(const CacheDirectory& directory);

  Limits limits_;
  std::function<void(const std::string& problem)> complain_;
  std::mutex mutex_;
  std::thread thread_;
  pid_t process_ = 0;  ///< that has the thread
  bool wanted_ = false;
  bool evicting_ = false;
};

}  // namespace coconet::jit
