// The threads over which a rank of the host spreads its work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "jit/config/own_process.h"

namespace coconet::jit {

/// Threads that a thread which runs kernels shares work with. They look for it for a while after
/// the last, and then sleep. Where they may run is what that thread's affinity was when they began.
class CorePool {
 public:
  /// That of the calling thread, which ends with it.
  static CorePool& of_this_thread();

  ~CorePool();
  CorePool(const CorePool&) = delete;
  CorePool& operator=(const CorePool&) = delete;

  /// Calls work(i) for i from 0 to `cores` - 1 at once, the first one here, and returns when all
  /// have returned; they must not throw. What no thread has begun when the first one returns is
  /// done here, too: it would wait for a thread that sleeps or has no core. Throws BackendError,
  /// before it calls any, where the system starts no more threads.
  template <class Work>
  void run(int cores, const Work& work) {
    begin(
        cores, [](const void* context, int index) { (*static_cast<const Work*>(context))(index); },
        &work);
    work(0);
    finish(cores);
  }

  /// Starts the threads that a `run` of so many needs. Throws as that does.
  void start(int cores);

 private:
  using Call = void (*)(const void* context, int index);

  /// One for each thread but the caller, in a line of its own.
  struct alignas(64) Worker {
    std::atomic<int> given = 0;  ///< pieces of work so far
    std::atomic<int> taken = 0;  ///< of those, by it or by who gave them
    std::atomic<int> done = 0;
    std::thread thread;
  };

  CorePool() = default;
  void begin(int cores, Call call, const void* context);
  void finish(int cores);
  /// Whether the caller is to do piece `number` of `worker`, which nobody else does then.
  static bool take(Worker& worker, int number);
  void work_as(Worker& worker, int index);

  OwnProcess process_;  ///< which has the threads
  std::vector<std::unique_ptr<Worker>> workers_;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> ends_ = false;
};

/// Calls body(begin, length) for parts of `count` things at once, on as many of `cores` as have
/// `least` things to do each. All parts but the last are a multiple of `unit`.
template <class Body>
void spread(int cores, std::size_t count, std::size_t least, std::size_t unit, const Body& body) {
  const std::size_t parts = std::clamp<std::size_t>(count / least, 1, cores);
  if (parts == 1) {
    body(0, count);
    return;
  }
  const std::size_t of_each = (count / parts + unit - 1) / unit * unit;
  CorePool::of_this_thread().run(static_cast<int>(parts), [&](int core) {
    const std::size_t begin = std::min(core * of_each, count);
    const bool is_last = core + 1 == static_cast<int>(parts);
    body(begin, is_last ? count - begin : std::min(of_each, count - begin));
  });
}

}  // namespace coconet::jit
