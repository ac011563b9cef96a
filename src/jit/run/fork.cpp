// Ordering queues by events.
#include "jit/run/fork.h"

namespace coconet::jit {

Fork::Fork(const Platform& platform, const Queue& queue, std::size_t count)
    : begun_(platform.make_event()) {
  for (std::size_t i = 0; i < count; ++i)
    branches_.push_back({queue.make_beside(), platform.make_event()});
}

void Fork::begin(Queue& queue, std::size_t count) {
  if (count == 0) return;
  begun_->record(queue);
  for (std::size_t i = 0; i < count; ++i) begun_->hold(*branches_[i].queue);
}

void Fork::end(Queue& queue, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    branches_[i].ended->record(*branches_[i].queue);
    branches_[i].ended->hold(queue);
  }
}

void Fork::finish() {
  for (const Branch& branch : branches_) branch.queue->finish();
}

}  // namespace coconet::jit
