// Loading kernels and putting work into streams.
#include "jit/platform/cuda/queue.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

CUdeviceptr address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

}  // namespace

CudaKernel::CudaKernel(const Device& device, std::string_view binary, const std::string& entry,
                       int ranks)
    : device_(device), entry_(entry), ranks_(ranks) {
  const Driver& cuda = driver();
  const OnDevice current(device_);
  const CUresult loaded =
      cuda.library_load(&library_, binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU || loaded == CUDA_ERROR_INVALID_IMAGE ||
      loaded == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    throw BackendError(fmt::format(
        "kernel '{}' cannot be loaded on {}, {}: the driver reports {}; it was compiled for "
        "another "
        "architecture (is COCONET_ARCH set?), or by an NVRTC that is newer than this driver, of "
        "CUDA {}",
        entry, device_.name(), device_.arch(), describe(loaded), cuda.version()));
  }
  check(loaded, fmt::format("loading kernel '{}' on {}", entry, device_.name()));
  CUkernel kernel = nullptr;
  CUresult found = cuda.library_kernel(&kernel, library_, entry.c_str());
  if (found == CUDA_SUCCESS) found = cuda.kernel_function(&function_, kernel);
  if (found == CUDA_SUCCESS) return;
  (void)cuda.library_unload(library_);
  check(found, fmt::format("the binary of kernel '{}' does not have that entry point", entry));
}

CudaKernel::~CudaKernel() {
  (void)driver().library_unload(library_);
}

int CudaKernel::resident_blocks(int threads) const {
  int blocks = 0;
  check(call_on(device_, driver().occupancy, &blocks, function_, threads, 0),
        fmt::format("asking how many blocks of kernel '{}' run at once", entry_));
  return blocks * device_.multiprocessors();
}

int CudaKernel::most_threads() const {
  int threads = 0;
  check(call_on(device_, driver().function_attribute, &threads,
                CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
        fmt::format("asking for the block size of kernel '{}'", entry_));
  return threads;
}

CudaQueue::CudaQueue(const Device& device, Order order, std::vector<RecordedLaunch>* recorded)
    : device_(device), owned_(true), recorded_(recorded) {
  check(call_on(device_, driver().stream_create, &stream_,
                order == Order::alone ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT),
        "making a stream on " + device_.name());
}

CudaQueue::~CudaQueue() {
  if (!owned_) return;
  const OnDevice current(device_);
  (void)driver().stream_synchronize(stream_);  // what its work uses may go next
  (void)driver().stream_destroy(stream_);
}

void CudaQueue::launch(const Kernel& kernel, const Grid& grid,
                       std::span<const std::uint64_t> words) {
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
  config.gridDimX = static_cast<unsigned>(grid.blocks);
  config.gridDimY = static_cast<unsigned>(grid.ranks);
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(grid.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  config.attrs = &cooperative;
  config.numAttrs = grid.resident ? 1 : 0;
  void* parameters[] = {const_cast<std::uint64_t*>(words.data())};
  const CUresult result = driver().launch(&config, loaded.function(), parameters, nullptr);
  if (result != CUDA_SUCCESS) {
    check(result,
          fmt::format("launching kernel '{}' with {} blocks of {} threads on {}", loaded.entry(),
                      grid.blocks * grid.ranks, grid.threads, device_.name()));
  }
  ++launches_;
  if (recorded_ != nullptr) record_launch(loaded, grid);
}

void CudaQueue::record_launch(const CudaKernel& kernel, const Grid& grid) {
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

void CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(call_on(device_, driver().copy_async, address(to), address(from), bytes, stream_),
        fmt::format("copying {} bytes on {}", bytes, device_.name()));
}

void CudaQueue::copy_rows(void* to, std::size_t to_stride, const void* from,
                          std::size_t from_stride, std::size_t bytes, std::size_t rows) {
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
        fmt::format("copying {} rows of {} bytes on {}", rows, bytes, device_.name()));
}

void CudaQueue::zero(void* at, std::size_t bytes) {
  if (bytes == 0) return;
  check(call_on(device_, driver().set_bytes_async, address(at), 0, bytes, stream_),
        fmt::format("clearing {} bytes on {}", bytes, device_.name()));
}

bool CudaQueue::idle() const {
  return is_done(call_on(device_, driver().stream_query, stream_), device_);
}

void CudaQueue::finish() {
  check(call_on(device_, driver().stream_synchronize, stream_),
        "work on " + device_.name() + " failed");
}

bool CudaQueue::being_recorded() const {
  if (owned_) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(call_on(device_, driver().stream_is_capturing, stream_, &status),
        "asking whether a stream is captured");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool is_done(CUresult result, const Device& device) {
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(result, "work on " + device.name() + " failed");
  return true;
}

}  // namespace coconet::jit
