// Work that runs at once on a GPU: streams ordered by events.
#include <vector>

#include "jit/platform/cuda/queue.h"

namespace coconet::jit {

namespace {

class CudaFork final : public Fork {
 public:
  CudaFork(const Device& device, const CudaQueue& queue, std::size_t count)
      : begun_(make_cuda_event(device)) {
    for (std::size_t i = 1; i < count; ++i)
      branches_.push_back({queue.make_beside(), make_cuda_event(device)});
  }

  // Makers come first: where nothing runs at once, because something else fills the GPU or a tool
  // takes launches one by one, the order is right.
  void run(Queue& queue, std::size_t count,
           const std::function<void(Queue&, std::size_t)>& put) override {
    begun_->record(queue);
    for (std::size_t i = 0; i + 1 < count; ++i) begun_->hold(*branches_[i].queue);
    for (std::size_t i = 0; i + 1 < count; ++i) put(*branches_[i].queue, i);
    put(queue, count - 1);
    for (std::size_t i = 0; i + 1 < count; ++i) {
      branches_[i].ended->record(*branches_[i].queue);
      branches_[i].ended->hold(queue);
    }
  }

  void finish() override {
    for (const Branch& branch : branches_) branch.queue->finish();
  }

 private:
  struct Branch {
    std::unique_ptr<CudaQueue> queue;
    std::unique_ptr<Event> ended;
  };
  std::unique_ptr<Event> begun_;
  std::vector<Branch> branches_;
};

}  // namespace

std::unique_ptr<Fork> make_cuda_fork(const Device& device, const CudaQueue& queue,
                                     std::size_t count) {
  return std::make_unique<CudaFork>(device, queue, count);
}

}  // namespace coconet::jit
