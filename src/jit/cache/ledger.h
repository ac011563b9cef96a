// The one file of a cache directory that is no entry: which directory it is, how much lies in it, and locks.
//
// Locks are the kernel's, on single bytes far behind the end of the file, one for each key: a process that dies gives
// them back, nothing has to be cleaned up, and a lock takes no file of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "jit/cache/directory.h"

namespace coconet::jit {

/// How much lies in a directory.
struct Totals {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};

/// What the ledger says. Hints, but for `id`: a process that is killed may have left them behind the truth, and a sweep
/// counts anew.
struct LedgerState {
  std::string
      id;  ///< 32 hexadecimal digits, drawn when the directory was first used; the same through every mount
  Totals totals;
  std::int64_t swept = 0;  ///< when a sweep ended last, seconds since 1970; 0: never
};

/// What the ledger says, without a lock; nothing when there is none or it is damaged.
[[nodiscard]] std::optional<LedgerState> read_ledger(const CacheDirectory& directory);

using Deadline = std::chrono::steady_clock::time_point;

/// What can be locked.
class LockPlace {
 public:
  [[nodiscard]] static LockPlace totals() { return LockPlace(totals_at); }
  [[nodiscard]] static LockPlace sweep() { return LockPlace(sweep_at); }
  /// The `slot`-th of the compilers that may run on this machine at once.
  [[nodiscard]] static LockPlace compiler(int slot);
  [[nodiscard]] static LockPlace key(const Digest& digest);
  [[nodiscard]] std::int64_t offset() const { return offset_; }

 private:
  static constexpr std::int64_t totals_at = std::int64_t{1} << 20;
  static constexpr std::int64_t sweep_at = totals_at + 1;

  explicit LockPlace(std::int64_t offset) : offset_(offset) {}
  std::int64_t offset_;
};

/// A kernel lock, held until the object or the process ends.
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

 private:
  OpenFile file_;
  LockPlace place_;
};

/// Takes the lock of the first of `places` that nobody has. Throws std::system_error when the file system has no locks.
[[nodiscard]] std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                               std::span<const LockPlace> places);
[[nodiscard]] inline std::optional<Lock> lock_if_free(const CacheDirectory& directory,
                                                      LockPlace place) {
  return lock_if_free(directory, {&place, 1});
}

/// Waits in naps, for what nobody announces: short at first, 50 ms in the end.
class Naps {
 public:
  explicit Naps(Deadline deadline) : deadline_(deadline) {}
  /// False when the deadline has come, else after a nap.
  [[nodiscard]] bool nap();

 private:
  Deadline deadline_;
  std::chrono::microseconds next_{100};
};

/// Reads the ledger, changes it with `change` and writes it, while nobody else does; makes it when there is none or
/// it is damaged. Throws std::system_error, and when the lock cannot be had for a second.
LedgerState update_ledger(const CacheDirectory& directory,
                          const std::function<void(LedgerState&)>& change = {});

}  // namespace coconet::jit
