// A semaphore for threads, and kernel locks for processes.
#include "jit/cache/compile_slots.h"

#include <algorithm>

namespace coconet::jit {

CompileSlots::Slot::~Slot() {
  lock_.reset();
  {
    const std::lock_guard lock(slots_.mutex_);
    --slots_.taken_;
  }
  slots_.freed_.notify_one();
}

void CompileSlots::set(int in_process, int on_machine) {
  {
    const std::lock_guard lock(mutex_);
    in_process_ = std::max(1, in_process);
    on_machine_ = std::max(in_process_, on_machine);
  }
  freed_.notify_all();
}

int CompileSlots::in_process() const {
  const std::lock_guard lock(mutex_);
  return in_process_;
}

CompileSlots::Slot CompileSlots::take(DiskCache& disk, Deadline deadline) {
  int on_machine = 0;
  {
    std::unique_lock lock(mutex_);
    (void)freed_.wait_until(lock, deadline, [&] { return taken_ < in_process_; });
    ++taken_;
    on_machine = on_machine_;
  }
  return Slot(*this, disk.lock_compiler(on_machine, deadline));
}

}  // namespace coconet::jit
