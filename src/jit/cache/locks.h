// Locks on single bytes of a directory's stats file, far behind its end: the operating system frees
// those of a process that dies, and a lock takes no file of its own.
#pragma once

#include <span>

#include "jit/cache/directory.h"

namespace coconet::jit {

using Deadline = std::chrono::steady_clock::time_point;

/// What can be locked: a byte of the stats file.
struct LockPlace {
  std::int64_t offset;
  [[nodiscard]] static LockPlace stats() { return {std::int64_t{1} << 20}; }
  [[nodiscard]] static LockPlace eviction() { return {stats().offset + 1}; }
  /// The `slot`-th of the compilers that may run on this machine at once.
  [[nodiscard]] static LockPlace compiler(int slot);
  [[nodiscard]] static LockPlace key(const Digest& digest);
};

/// A lock, held until the object or the process ends.
class Lock {
 public:
  Lock(OpenFile file, LockPlace place) : file_(std::move(file)), place_(place) {}
  ~Lock();
  Lock(Lock&&) noexcept = default;
  Lock& operator=(Lock&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(place_, other.place_);
    return *this;
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// The stats file that it is on.
  [[nodiscard]] int file() const { return file_.number(); }

 private:
  OpenFile file_;
  LockPlace place_;
};

/// Takes the first of `places` that is free. Throws std::system_error where there are no locks.
[[nodiscard]] std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                               std::span<const LockPlace> places);
[[nodiscard]] inline std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                                      LockPlace place) {
  return lock_if_free(directory, {&place, 1});
}

/// Sleeps between attempts, each time longer, up to 50 ms.
class Backoff {
 public:
  explicit Backoff(Deadline deadline) : deadline_(deadline) {}
  /// False when the deadline has come, else after a sleep.
  [[nodiscard]] bool wait();

 private:
  Deadline deadline_;
  std::chrono::microseconds next_{100};
};

}  // namespace coconet::jit
