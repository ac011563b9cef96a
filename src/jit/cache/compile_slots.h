// How many compilers may run at once: in this process, and on this machine among those who share a cache directory.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "jit/cache/disk_cache.h"

namespace coconet::jit {

class CompileSlots {
 public:
  /// A compiler may run as long as it lives.
  class Slot {
   public:
    Slot(CompileSlots& slots, std::optional<Lock> lock) : slots_(slots), lock_(std::move(lock)) {}
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    CompileSlots& slots_;
    std::optional<Lock> lock_;
  };

  explicit CompileSlots(int process) : in_process_(process), on_machine_(process) {}
  /// From here on `in_process` at once in this process, and `on_machine` in all.
  void set(int in_process, int on_machine);
  [[nodiscard]] int in_process() const;
  /// Waits for a slot until `deadline` at the longest: who waits for ever has no kernel at all. The slots of the
  /// machine are kept in `disk`, if it is one that is written.
  [[nodiscard]] Slot take(DiskCache& disk, Deadline deadline);

 private:
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  int in_process_;
  int on_machine_;
  int taken_ = 0;
};

}  // namespace coconet::jit
