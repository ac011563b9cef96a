// Sweeps a cache directory off the hot path: in a thread, and in one process at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "jit/cache/directory.h"
#include "jit/cache/sweep.h"

namespace coconet::jit {

class Sweeper {
 public:
  /// `complain` is told of what the file system refuses, by the thread.
  Sweeper(Limits limits, std::function<void(const std::string& problem)> complain);
  /// Waits for a sweep that is under way.
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  /// Has `directory` swept from now on, without waiting; by this process, or by one that is at it already.
  void start(std::shared_ptr<const CacheDirectory> directory);

 private:
  void part_with_thread();
  void sweep_while_wanted(const CacheDirectory& directory);
  void sweep_if_elected(const CacheDirectory& directory);

  Limits limits_;
  std::function<void(const std::string& problem)> complain_;
  std::mutex mutex_;
  std::thread thread_;
  pid_t process_ = 0;  ///< that has the thread
  bool wanted_ = false;
  bool sweeping_ = false;
};

}  // namespace coconet::jit
