// The order of work of executables that share states, where queues do it later: what one puts into
// its queue begins behind what the other put into its own.
#pragma once

#include "jit/platform/platform.h"

namespace coconet::jit {

class StateOrder {
 public:
  explicit StateOrder(std::unique_ptr<Event> newest) : newest_(std::move(newest)) {}

  /// What is put into `queue` from here on begins behind all that was recorded.
  void hold(Queue& queue) const {
    if (recorded_) newest_->hold(queue);
  }
  /// What is in `queue` now comes before what others hold from here on.
  void record(Queue& queue) {
    newest_->record(queue);
    recorded_ = true;
  }

 private:
  std::unique_ptr<Event> newest_;
  bool recorded_ = false;
};

}  // namespace coconet::jit
