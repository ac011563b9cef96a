// Events, work beside a stream, and recorded work.
#include "jit/platform/cuda/queue.h"

namespace coconet::jit {

namespace {

CUstream stream_of(const Queue& queue) {
  return static_cast<CUstream>(queue.handle());
}

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(const Device& device) : device_(device) {
    check(call_on(device_, driver().event_create, &event_, CU_EVENT_DEFAULT), "making an event");
  }
  ~CudaEvent() override { (void)call_on(device_, driver().event_destroy, event_); }
  void record(Queue& queue) override {
    check(call_on(device_, driver().event_record, event_, stream_of(queue)), "recording an event");
  }
  void hold(Queue& queue) const override {
    check(call_on(device_, driver().stream_wait_event, stream_of(queue), event_, 0),
          "waiting for an event");
  }
  [[nodiscard]] bool reached() const override {
    return is_done(call_on(device_, driver().event_query, event_), device_);
  }
  [[nodiscard]] float ms_since(const Event& earlier) const override {
    float ms = 0;
    check(call_on(device_, driver().event_elapsed, &ms,
                  static_cast<const CudaEvent&>(earlier).event_, event_),
          "reading the time between two events");
    return ms;
  }

 private:
  const Device& device_;
  CUevent event_ = nullptr;
};

/// Streams ordered by events.
class CudaFork final : public Fork {
 public:
  CudaFork(const Device& device, const CudaQueue& queue, std::size_t count) : begun_(device) {
    for (std::size_t i = 1; i < count; ++i)
      branches_.push_back({queue.make_beside(), make_cuda_event(device)});
  }

  // Makers come first: where nothing runs at once, because something else fills the GPU or a tool
  // takes launches one by one, the order is right.
  void run(Queue& queue, std::size_t count,
           const std::function<void(Queue&, std::size_t)>& put) override {
    const std::span<const Branch> branches(branches_.data(), count - 1);
    begun_.record(queue);
    for (const Branch& branch : branches) begun_.hold(*branch.queue);
    for (std::size_t i = 0; i < branches.size(); ++i) put(*branches[i].queue, i);
    put(queue, count - 1);
    for (const Branch& branch : branches) {
      branch.ended->record(*branch.queue);
      branch.ended->hold(queue);
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
  CudaEvent begun_;
  std::vector<Branch> branches_;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Device& device, CUgraph graph, std::vector<RecordedLaunch> launches)
      : device_(device), graph_(graph), launches_(std::move(launches)) {
    const CUresult result = driver().graph_instantiate(&executable_, graph_, 0);
    if (result != CUDA_SUCCESS) (void)driver().graph_destroy(graph_);
    check(result, "making a graph of a step");
  }
  ~CudaGraph() override {
    (void)call_on(device_, driver().graph_exec_destroy, executable_);
    (void)call_on(device_, driver().graph_destroy, graph_);
  }

  void set_launch(std::size_t index, std::span<const std::uint64_t> words) override {
    const RecordedLaunch& launch = launches_.at(index);
    CUDA_KERNEL_NODE_PARAMS node{};
    node.func = launch.kernel->function();
    node.gridDimX = static_cast<unsigned>(launch.grid.blocks);
    node.gridDimY = static_cast<unsigned>(launch.grid.ranks);
    node.gridDimZ = 1;
    node.blockDimX = static_cast<unsigned>(launch.grid.threads);
    node.blockDimY = node.blockDimZ = 1;
    void* parameters[] = {const_cast<std::uint64_t*>(words.data())};
    node.kernelParams = parameters;
    check(call_on(device_, driver().graph_set_kernel, executable_, launch.node, &node),
          "changing the arguments of kernel '" + launch.kernel->entry() + "' in a graph");
  }
  void launch(Queue& queue) override {
    check(call_on(device_, driver().graph_launch, executable_, stream_of(queue)),
          "launching a step's graph");
  }

 private:
  const Device& device_;
  CUgraph graph_;
  CUgraphExec executable_ = nullptr;
  std::vector<RecordedLaunch> launches_;
};

}  // namespace

std::unique_ptr<Event> make_cuda_event(const Device& device) {
  return std::make_unique<CudaEvent>(device);
}

std::unique_ptr<Fork> make_cuda_fork(const Device& device, const CudaQueue& queue,
                                     std::size_t count) {
  return std::make_unique<CudaFork>(device, queue, count);
}

std::unique_ptr<Graph> record_cuda_graph(const Device& device,
                                         const std::function<void(Queue&)>& body) {
  const Driver& cuda = driver();
  const OnDevice current(device);
  std::vector<RecordedLaunch> launches;
  CudaQueue queue(device, CudaQueue::Order::alone, &launches);
  check(cuda.stream_begin_capture(queue.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "starting to record a step");
  CUgraph graph = nullptr;
  // A capture that stays open would have most calls of this thread refused.
  const auto give_up = [&] {
    (void)cuda.stream_end_capture(queue.stream(), &graph);
    if (graph != nullptr) (void)cuda.graph_destroy(graph);
  };
  try {
    body(queue);
  } catch (...) {
    give_up();
    throw;
  }
  const CUresult ended = cuda.stream_end_capture(queue.stream(), &graph);
  if (ended != CUDA_SUCCESS) give_up();
  check(ended, "recording a step");
  return std::make_unique<CudaGraph>(device, graph, std::move(launches));
}

}  // namespace coconet::jit
