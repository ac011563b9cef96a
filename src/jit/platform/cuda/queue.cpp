// Putting work into streams.
#include "jit/platform/cuda/queue.h"

#include <algorithm>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

CUdeviceptr address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

}  // namespace

CudaKernel::CudaKernel(const Device& device, std::string_view binary, const std::string& entry,
                       int ranks)
    : device_(device), entry_(entry), ranks_(static_cast<std::size_t>(ranks)) {
  const Driver& cuda = driver();
  const OnDevice current(device_);
  const CUresult loaded =
      cuda.library_load(&library_, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded == CUDA_ERROR_INVALID_IMAGE ||
      loaded == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    throw BackendError("kernel '" + entry + "' cannot be loaded on " + device_.name() + ", " +
                       device_.arch() + ": the driver reports " + describe(loaded) +
                       "; it was compiled for another architecture (is COCONET_ARCH set?), or by "
                       "an NVRTC that is newer than this driver, of CUDA " +
                       std::to_string(cuda.number / 1000) + "." +
                       std::to_string(cuda.number % 1000 / 10));
  }
  check(loaded, "loading kernel '" + entry + "' on " + device_.name());
  CUkernel kernel = nullptr;
  CUresult found = cuda.library_kernel(&kernel, library_, entry.c_str());
  if (found == CUDA_SUCCESS) found = cuda.kernel_function(&function_, kernel);
  if (found == CUDA_SUCCESS) return;
  (void)cuda.library_unload(library_);
  check(found, "the binary of kernel '" + entry + "' does not have that entry point");
}

CudaKernel::~CudaKernel() {
  (void)driver().library_unload(library_);
}

int CudaKernel::resident_blocks(int threads) const {
  const OnDevice current(device_);
  int blocks = 0;
  check(driver().occupancy(&blocks, function_, threads, 0),
        "asking how many blocks of kernel '" + entry_ + "' run at once");
  return blocks * device_.multiprocessors();
}

int CudaKernel::most_threads() const {
  const OnDevice current(device_);
  int threads = 0;
  check(driver().function_attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
        "asking for the block size of kernel '" + entry_ + "'");
  return threads;
}

std::shared_ptr<const Kernel> load_cuda_kernel(const Device& device, std::string_view binary,
                                               const std::string& entry, int ranks) {
  return std::make_shared<CudaKernel>(device, binary, entry, ranks);
}

CudaQueue::CudaQueue(const Device& device, Order order, std::vector<RecordedLaunch>* recorded)
    : device_(device), owned_(true), recorded_(recorded) {
  const OnDevice current(device_);
  check(driver().stream_create(&stream_,
                               order == Order::alone ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT),
        "making a stream on " + device_.name());
}

CudaQueue::CudaQueue(const Device& device, Application application)
    : device_(device), owned_(false), stream_(static_cast<CUstream>(application.stream)) {}

CudaQueue::~CudaQueue() {
  if (!owned_) return;
  const OnDevice current(device_);
  (void)driver().stream_synchronize(stream_);  // what its work uses may go next
  (void)driver().stream_destroy(stream_);
}

void CudaQueue::launch(const Kernel& kernel, const Grid& grid,
                       std::span<const std::uint64_t> words) {
  const auto& loaded = static_cast<const CudaKernel&>(kernel);
  const Driver& cuda = driver();
  const OnDevice current(device_);
  // The driver copies as many argument blocks as the parameter holds.
  std::vector<std::uint64_t> filled_up;
  const std::size_t needed = words.size() / static_cast<std::size_t>(grid.ranks) * loaded.ranks();
  if (words.size() < needed) {
    filled_up.assign(words.begin(), words.end());
    filled_up.resize(needed);
    words = filled_up;
  }
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(grid.blocks);
  config.gridDimY = static_cast<unsigned>(grid.ranks);
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(grid.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  config.attrs = &cooperative;
  config.numAttrs = grid.resident ? 1 : 0;
  void* parameters[] = {const_cast<std::uint64_t*>(words.data())};
  const CUresult result = cuda.launch(&config, loaded.function(), parameters, nullptr);
  if (result != CUDA_SUCCESS) {
    check(result, "launching kernel '" + loaded.entry() + "' with " +
                      std::to_string(grid.blocks * grid.ranks) + " blocks of " +
                      std::to_string(grid.threads) + " threads on " + device_.name());
  }
  ++launches_;
  if (recorded_ == nullptr) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  std::size_t count = 0;
  check(cuda.stream_capture_info(stream_, &status, &id, &graph, &last, &count),
        "recording kernel '" + loaded.entry() + "' in a graph");
  if (count != 1)
    throw InternalError("a launch in a graph is followed by " + std::to_string(count) + " nodes");
  recorded_->push_back({*last, &loaded, grid});
}

void CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const OnDevice current(device_);
  check(driver().copy_async(address(to), address(from), bytes, stream_),
        "copying " + std::to_string(bytes) + " bytes on " + device_.name());
}

void CudaQueue::copy_rows(void* to, std::size_t to_stride, const void* from,
                          std::size_t from_stride, std::size_t bytes, std::size_t rows) {
  if (bytes == 0 || rows == 0) return;
  const OnDevice current(device_);
  CUDA_MEMCPY2D shape{};
  shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  shape.srcDevice = address(from);
  shape.srcPitch = from_stride;
  shape.dstDevice = address(to);
  shape.dstPitch = to_stride;
  shape.WidthInBytes = bytes;
  shape.Height = rows;
  check(driver().copy_2d_async(&shape, stream_), "copying " + std::to_string(rows) + " rows of " +
                                                     std::to_string(bytes) + " bytes on " +
                                                     device_.name());
}

void CudaQueue::zero(void* at, std::size_t bytes) {
  if (bytes == 0) return;
  const OnDevice current(device_);
  check(driver().set_bytes_async(address(at), 0, bytes, stream_),
        "clearing " + std::to_string(bytes) + " bytes on " + device_.name());
}

bool CudaQueue::idle() const {
  const OnDevice current(device_);
  const CUresult result = driver().stream_query(stream_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "work on " + device_.name() + " failed");
  return true;
}

void CudaQueue::finish() {
  const OnDevice current(device_);
  check(driver().stream_synchronize(stream_), "work on " + device_.name() + " failed");
}

bool CudaQueue::being_recorded() const {
  if (owned_) return false;
  const OnDevice current(device_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(driver().stream_is_capturing(stream_, &status), "asking whether a stream is captured");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

namespace {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(const Device& device) : device_(device) {
    const OnDevice current(device_);
    check(driver().event_create(&event_, CU_EVENT_DEFAULT), "making an event");
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override {
    const OnDevice current(device_);
    (void)driver().event_destroy(event_);
  }
  void record(Queue& queue) override {
    const OnDevice current(device_);
    check(driver().event_record(event_, static_cast<CUstream>(queue.handle())),
          "recording an event");
  }
  void hold(Queue& queue) const override {
    const OnDevice current(device_);
    check(driver().stream_wait_event(static_cast<CUstream>(queue.handle()), event_, 0),
          "waiting for an event");
  }
  [[nodiscard]] bool reached() const override {
    const OnDevice current(device_);
    const CUresult result = driver().event_query(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check(result, "work on " + device_.name() + " failed");
    return true;
  }
  [[nodiscard]] float ms_since(const Event& earlier) const override {
    const OnDevice current(device_);
    float ms = 0;
    check(driver().event_elapsed(&ms, static_cast<const CudaEvent&>(earlier).event_, event_),
          "reading the time between two events");
    return ms;
  }

 private:
  const Device& device_;
  CUevent event_ = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Device& device, CUgraph graph, std::vector<RecordedLaunch> launches)
      : device_(device), graph_(graph), launches_(std::move(launches)) {
    const CUresult result = driver().graph_instantiate(&executable_, graph_, 0);
    if (result != CUDA_SUCCESS) (void)driver().graph_destroy(graph_);
    check(result, "making a graph of a step");
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    const OnDevice current(device_);
    (void)driver().graph_exec_destroy(executable_);
    (void)driver().graph_destroy(graph_);
  }

  void set_launch(std::size_t index, std::span<const std::uint64_t> words) override {
    const OnDevice current(device_);
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
    check(driver().graph_set_kernel(executable_, launch.node, &node),
          "changing the arguments of kernel '" + launch.kernel->entry() + "' in a graph");
  }
  void launch(Queue& queue) override {
    const OnDevice current(device_);
    check(driver().graph_launch(executable_, static_cast<CUstream>(queue.handle())),
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

std::unique_ptr<Graph> record_cuda_graph(const Device& device,
                                         const std::function<void(Queue&)>& body) {
  const Driver& cuda = driver();
  const OnDevice current(device);
  std::vector<RecordedLaunch> launches;
  CudaQueue queue(device, CudaQueue::Order::alone, &launches);
  check(cuda.stream_begin_capture(queue.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "starting to record a step");
  CUgraph graph = nullptr;
  try {
    body(queue);
  } catch (...) {
    (void)cuda.stream_end_capture(queue.stream(), &graph);
    if (graph != nullptr) (void)cuda.graph_destroy(graph);
    throw;
  }
  const CUresult ended = cuda.stream_end_capture(queue.stream(), &graph);
  // A capture that stays open would have most calls of this thread refused.
  if (ended != CUDA_SUCCESS) {
    (void)cuda.stream_end_capture(queue.stream(), &graph);
    if (graph != nullptr) (void)cuda.graph_destroy(graph);
  }
  check(ended, "recording a step");
  return std::make_unique<CudaGraph>(device, graph, std::move(launches));
}

}  // namespace coconet::jit
