// Loading kernels, and putting work into streams.
#include "jit/platform/cuda/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coconet/error.h"
#include "jit/config/own_process.h"
#include "jit/platform/cuda/driver.h"

namespace coconet::jit {

namespace {

CUdeviceptr address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

CUstream stream_of(const Queue& queue) {
  return static_cast<CUstream>(queue.handle());
}

/// Sets the shape of a launch, or of a graph's node.
template <class Launch>
void set_grid(const Grid& grid, Launch& launch) {
  launch.gridDimX = grid.blocks;
  launch.gridDimY = grid.ranks;
  launch.gridDimZ = 1;
  launch.blockDimX = grid.threads;
  launch.blockDimY = launch.blockDimZ = 1;
}

/// Whether `result`, of a query of a stream or an event, says that the work is done.
bool is_done(CUresult result, const Device& device) {
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "work on " + device.name + " failed");
  return true;
}

class CudaKernel final : public Kernel {
 public:
  CudaKernel(const Device& device, std::string_view binary, const std::string& entry, int ranks)
      : device_(device), entry_(entry), ranks_(ranks) {
    const Driver& cuda = driver();
    const OnDevice current(device_);
    const CUresult loaded =
        cuda.library_load(&library_, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded == CUDA_ERROR_INVALID_IMAGE ||
        loaded == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      throw BackendError(fmt::format(
          "kernel '{}' cannot be loaded on {}, {}: the driver reports {}; it was compiled for "
          "another architecture (is COCONET_ARCH set?), or by an NVRTC that is newer than this "
          "driver, of CUDA {}",
          entry, device_.name, device_.arch, describe(loaded), cuda.version()));
    }
    check(loaded, fmt::format("loading kernel '{}' on {}", entry, device_.name));
    CUkernel kernel = nullptr;
    CUresult found = cuda.library_kernel(&kernel, library_, entry.c_str());
    if (found == CUDA_SUCCESS) found = cuda.kernel_function(&function_, kernel);
    if (found == CUDA_SUCCESS) return;
    (void)cuda.library_unload(library_);
    check(found, fmt::format("the binary of kernel '{}' does not have that entry point", entry));
  }
  ~CudaKernel() override { (void)driver().library_unload(library_); }

  int resident_blocks(int threads) const override {
    int blocks = 0;
    check(call_on(device_, driver().occupancy, &blocks, function_, threads, 0),
          fmt::format("asking how many blocks of kernel '{}' run at once", entry_));
    return blocks * device_.multiprocessors;
  }
  int most_threads() const override {
    int threads = 0;
    check(call_on(device_, driver().function_attribute, &threads,
                  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
          fmt::format("asking for the block size of kernel '{}'", entry_));
    return threads;
  }
  [[nodiscard]] CUfunction function() const { return function_; }
  [[nodiscard]] const std::string& entry() const { return entry_; }
  /// Argument blocks that its parameter holds.
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  const Device& device_;
  std::string entry_;
  int ranks_;
  CUlibrary library_ = nullptr;
  CUfunction function_ = nullptr;
};

/// A launch that was put into a graph.
struct RecordedLaunch {
  CUgraphNode node = nullptr;
  const CudaKernel* kernel = nullptr;
  Grid grid;
};

class CudaQueue final : public Queue {
 public:
  /// A stream of its own. `order`: CU_STREAM_DEFAULT where the legacy default stream waits for it
  /// and is waited for by it, else CU_STREAM_NON_BLOCKING. `recorded` collects the launches of a
  /// stream that is being captured, which must be of the latter kind. Blocks of a stream with a
  /// lower `priority` find room first.
  CudaQueue(const Device& device, CUstream_flags order,
            std::vector<RecordedLaunch>* recorded = nullptr, int priority = 0)
      : device_(device), owned_(true), recorded_(recorded) {
    check(call_on(device_, driver().stream_create, &stream_, order, priority),
          "making a stream on " + device_.name);
  }
  /// The application's stream.
  CudaQueue(const Device& device, void* stream)
      : device_(device), owned_(false), stream_(static_cast<CUstream>(stream)) {}
  ~CudaQueue() override {
    if (!owned_ || !process_.is_this()) return;
    const OnDevice current(device_);
    (void)driver().stream_synchronize(stream_);  // what its work uses may go next
    (void)driver().stream_destroy(stream_);
  }

  void launch(const Kernel& kernel, const Grid& grid,
              std::span<const std::uint64_t> words) override {
    const auto& loaded = static_cast<const CudaKernel&>(kernel);
    const OnDevice current(device_);
    // The driver copies as many argument blocks as the parameter holds.
    std::vector<std::uint64_t> filled_up;
    const std::size_t needed = words.size() / grid.ranks * loaded.ranks();
    if (words.size() < needed) {
      filled_up.assign(words.begin(), words.end());
      filled_up.resize(needed);
      words = filled_up;
    }
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    CUlaunchConfig config{};
    set_grid(grid, config);
    config.hStream = stream_;
    config.attrs = &cooperative;
    config.numAttrs = grid.together ? 1 : 0;
    void* parameters[] = {const_cast<std::uint64_t*>(words.data())};
    const CUresult result = driver().launch(&config, loaded.function(), parameters, nullptr);
    if (result != CUDA_SUCCESS) {
      check(result,
            fmt::format("launching kernel '{}' with {} blocks of {} threads on {}", loaded.entry(),
                        grid.blocks * grid.ranks, grid.threads, device_.name));
    }
    ++launches_;
    if (recorded_ != nullptr) record_launch(loaded, grid);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    check(call_on(device_, driver().copy_async, address(to), address(from), bytes, stream_),
          fmt::format("copying {} bytes on {}", bytes, device_.name));
  }
  void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                 std::size_t bytes, std::size_t rows) override {
    if (bytes == 0 || rows == 0) return;
    CUDA_MEMCPY2D shape{};
    shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    shape.srcDevice = address(from);
    shape.srcPitch = from_stride;
    shape.dstDevice = address(to);
    shape.dstPitch = to_stride;
    shape.WidthInBytes = bytes;
    shape.Height = rows;
    check(call_on(device_, driver().copy_2d_async, &shape, stream_),
          fmt::format("copying {} rows of {} bytes on {}", rows, bytes, device_.name));
  }
  void zero(void* at, std::size_t bytes) override {
    if (bytes == 0) return;
    check(call_on(device_, driver().set_bytes_async, address(at), 0, bytes, stream_),
          fmt::format("clearing {} bytes on {}", bytes, device_.name));
  }
  std::size_t launches() const override {
    return recorded_ != nullptr ? recorded_->size() : launches_;
  }
  bool idle() const override {
    return is_done(call_on(device_, driver().stream_query, stream_), device_);
  }
  void finish() override {
    check(call_on(device_, driver().stream_synchronize, stream_),
          "work on " + device_.name + " failed");
  }
  void* handle() const override { return stream_; }
  bool being_recorded() const override {
    if (owned_) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(call_on(device_, driver().stream_is_capturing, stream_, &status),
          "asking whether a stream is captured");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  bool is_applications() const override { return !owned_; }
  /// A stream that events order with this one, recorded where this one is.
  [[nodiscard]] std::unique_ptr<CudaQueue> make_beside(int priority) const {
    return std::make_unique<CudaQueue>(device_, CU_STREAM_NON_BLOCKING, recorded_, priority);
  }

 private:
  void record_launch(const CudaKernel& kernel, const Grid& grid) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* last = nullptr;
    std::size_t count = 0;
    check(driver().stream_capture_info(stream_, &status, &id, &graph, &last, &count),
          fmt::format("recording kernel '{}' in a graph", kernel.entry()));
    if (count != 1)
      throw InternalError(fmt::format("a launch in a graph is followed by {} nodes", count));
    recorded_->push_back({*last, &kernel, grid});
  }

  const Device& device_;
  OwnProcess process_;
  bool owned_;
  CUstream stream_ = nullptr;
  std::vector<RecordedLaunch>* recorded_ = nullptr;
  std::size_t launches_ = 0;
};

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
  bool reached() const override {
    return is_done(call_on(device_, driver().event_query, event_), device_);
  }
  float ms_since(const Event& earlier) const override {
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
    int lowest = 0, highest = 0;  // which are numbers from 0 down
    check(call_on(device, driver().stream_priorities, &lowest, &highest),
          "asking for the priorities of streams on " + device.name);
    for (int i = 1 - static_cast<int>(count); i < 0; ++i)
      branches_.push_back({queue.make_beside(std::max(i, highest)), make_cuda_event(device)});
  }

  // Producers come first, and their blocks find room first: the order is right where nothing runs
  // at once, as under some tools.
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
    set_grid(launch.grid, node);
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

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(const Device& device)
      : device_(device), current_(device), queue_(device, CU_STREAM_NON_BLOCKING, &launches_) {
    check(driver().stream_begin_capture(stream_of(queue_), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "starting to record a step");
  }
  ~CudaRecording() override {
    // A capture that stays open would have most calls of this thread refused.
    if (open_) (void)driver().stream_end_capture(stream_of(queue_), &graph_);
    if (graph_ != nullptr) (void)driver().graph_destroy(graph_);
  }

  Queue& queue() override { return queue_; }
  std::unique_ptr<Graph> finish() override {
    check(driver().stream_end_capture(stream_of(queue_), &graph_), "recording a step");
    open_ = false;
    return std::make_unique<CudaGraph>(device_, std::exchange(graph_, nullptr),
                                       std::move(launches_));
  }

 private:
  const Device& device_;
  OnDevice current_;
  std::vector<RecordedLaunch> launches_;
  CudaQueue queue_;
  bool open_ = true;
  CUgraph graph_ = nullptr;
};

}  // namespace

std::shared_ptr<const Kernel> load_cuda_kernel(const Device& device, std::string_view binary,
                                               const std::string& entry, int ranks) {
  return std::make_shared<CudaKernel>(device, binary, entry, ranks);
}

std::unique_ptr<Queue> make_cuda_queue(const Device& device) {
  return std::make_unique<CudaQueue>(device, CU_STREAM_DEFAULT);
}

std::unique_ptr<Queue> wrap_cuda_queue(const Device& device, void* stream) {
  return std::make_unique<CudaQueue>(device, stream);
}

std::unique_ptr<Event> make_cuda_event(const Device& device) {
  return std::make_unique<CudaEvent>(device);
}

std::unique_ptr<Fork> make_cuda_fork(const Device& device, const Queue& queue, std::size_t count) {
  return std::make_unique<CudaFork>(device, static_cast<const CudaQueue&>(queue), count);
}

std::unique_ptr<Recording> make_cuda_recording(const Device& device) {
  return std::make_unique<CudaRecording>(device);
}

}  // namespace coconet::jit
