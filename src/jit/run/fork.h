// Queues beside one, for steps that run at once with those that are put into it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "jit/platform/platform.h"

namespace coconet::jit {

class Fork {
 public:
  /// `count` queues beside `queue`, which are recorded where that is.
  Fork(const Platform& platform, const Queue& queue, std::size_t count);

  /// Work put into the first `count` of them from here on begins behind all that is in `queue` now.
  void begin(Queue& queue, std::size_t count);
  /// What is put into `queue` from here on begins behind all that is in the first `count` of them.
  void end(Queue& queue, std::size_t count);
  [[nodiscard]] Queue& beside(std::size_t index) { return *branches_[index].queue; }
  /// Waits until all that is in them is done.
  void finish();

 private:
  struct Branch {
    std::unique_ptr<Queue> queue;
    std::unique_ptr<Event> ended;
  };
  std::unique_ptr<Event> begun_;
  std::vector<Branch> branches_;
};

}  // namespace coconet::jit
