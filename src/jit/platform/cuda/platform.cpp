// The CUDA platform: kernels are cubins that NVRTC makes for the device, queues are streams.
#include <fmt/format.h>

#include <cstring>
#include <mutex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/config/log.h"
#include "jit/platform/cuda/launch_order.h"
#include "jit/platform/cuda/libraries.h"
#include "jit/platform/cuda/matmul_tiles.h"
#include "jit/platform/cuda/nvrtc.h"
#include "jit/platform/cuda/peer_memory.h"
#include "jit/platform/cuda/queue.h"
#include "jit/platform/launch_collectives.h"

namespace coconet::jit {

namespace {

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{} MiB", (bytes + (std::size_t{1} << 20) - 1) >> 20);
}

[[noreturn]] void out_of_memory(const Device& device, std::size_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  const bool told = driver().memory_info(&free, &total) == CUDA_SUCCESS;
  throw BackendError(fmt::format(
      "{} has no room for {} of tensors{}; make the tensors smaller or slice states over the ranks",
      device.name, mebibytes(bytes),
      told ? fmt::format(": {} of its {} are free", mebibytes(free), mebibytes(total)) : ""));
}

/// Zeroed memory of a GPU, taken and given back in the order of `stream`.
std::shared_ptr<Memory> allocate_on_device(const Device& device, CUstream stream,
                                           std::size_t bytes) {
  const Driver& cuda = driver();
  const OnDevice current(device);
  CUdeviceptr data = 0;
  const CUresult result = cuda.memory_alloc_async(&data, bytes, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_memory(device, bytes);
  check(result, fmt::format("allocating {} on {}", mebibytes(bytes), device.name));
  auto memory = std::make_shared<Memory>(
      reinterpret_cast<std::byte*>(data),
      [&device, stream, data] { (void)call_on(device, driver().memory_free_async, data, stream); });
  CUresult zeroed = cuda.set_bytes_async(data, 0, bytes, stream);
  if (zeroed == CUDA_SUCCESS) zeroed = cuda.stream_synchronize(stream);
  check(zeroed, "clearing memory of " + device.name);
  return memory;
}

/// Pinned memory, which kernels reach under the same address.
std::shared_ptr<Memory> allocate_pinned(const Device& device, std::size_t bytes) {
  void* data = nullptr;
  check(call_on(device, driver().host_alloc, &data, bytes,
                CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        fmt::format("allocating {} bytes of pinned memory", bytes));
  std::memset(data, 0, bytes);
  return std::make_shared<Memory>(static_cast<std::byte*>(data), [&device, data] {
    (void)call_on(device, driver().host_free, data);
  });
}

/// The architecture that kernels for `device` are compiled for.
std::string arch_for(const Device& device) {
  if (!config().arch.empty()) return config().arch;
  const nvrtc::Target target = nvrtc::target_for(device.arch);
  if (target.arch.empty()) {
    throw CompileError(fmt::format(
        "no kernel can be compiled for {}, {}: NVRTC {} {}; or set COCONET_BACKEND=host",
        device.name, device.arch, nvrtc::version(), target.why));
  }
  static std::once_flag told;
  if (!target.why.empty()) {
    std::call_once(told, [&] {
      log_warn(
          fmt::format("NVRTC {} ({}); name the directory of a newer libnvrtc with "
                      "COCONET_CUDA_PATH for its own",
                      target.why, device.name));
    });
  }
  return target.arch;
}

class CudaPlatform final : public Platform {
 public:
  CudaPlatform(const Device& device, int ranks)
      : Platform(
            {.processor = device.name,
             .ranks_per_launch = ranks,
             .needs_multicast = true,
             .has_windows = true,
             .processors = std::max(1, device.multiprocessors - config().free_multiprocessors)}),
        device_(device),
        own_queue_(make_cuda_queue(device)) {}

  const Compiler& compiler() const override {
    const std::lock_guard lock(mutex_);
    if (!compiler_) {
      compiler_ = std::make_unique<NvrtcCompiler>(arch_for(device_), config().line_info,
                                                  traits().ranks_per_launch);
    }
    return *compiler_;
  }

  std::shared_ptr<const Kernel> load(std::string_view binary, const std::string& entry,
                                     OpenFile) const override {
    return load_cuda_kernel(device_, binary, entry, traits().ranks_per_launch);
  }
  std::shared_ptr<Memory> allocate(std::size_t bytes) const override {
    return allocate_on_device(device_, static_cast<CUstream>(own_queue_->handle()),
                              std::max<std::size_t>(bytes, 1));
  }
  std::shared_ptr<Memory> allocate_on_host(std::size_t bytes) const override {
    return allocate_pinned(device_, bytes);
  }
  std::shared_ptr<PeerMemory> allocate_peer(Comm& comm, std::size_t bytes,
                                            bool multicast) const override {
    return allocate_on_devices(comm, bytes, multicast);
  }
  Window allocate_window(Comm& comm, std::size_t bytes) const override {
    const bool by_nccl = comm.size() > 1 && traits().ranks_per_launch == 1;
    return allocate_window_on_device(comm, device_, bytes,
                                     by_nccl && device_.shares_memory && nccl_has_windows());
  }
  void require_whole_lines(Comm& comm, std::span<const int> group,
                           std::string_view kernel) const override {
    require_nvlink(comm, group, kernel);
  }
  void require_reachable(const void* data, const std::string& what) const override {
    const OnDevice current(device_);
    const Driver& cuda = driver();
    const auto address = reinterpret_cast<CUdeviceptr>(data);
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int ordinal = device_.ordinal;
    const bool known =
        cuda.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
    if (!known || type == CU_MEMORYTYPE_HOST) {
      throw BackendError(what +
                         ", is bound to memory of the host, and COCONET_BACKEND is cuda; bind "
                         "memory of the GPU, or copy the data with Executable::write");
    }
    (void)cuda.pointer_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (ordinal == device_.ordinal) return;
    throw BackendError(fmt::format(
        "{}, is bound to memory of GPU {}, and this rank runs on GPU {}; allocate there", what,
        ordinal, device_.ordinal));
  }

  std::unique_ptr<Queue> make_queue(int) const override { return make_cuda_queue(device_); }
  std::unique_ptr<Queue> wrap_queue(void* handle) const override {
    return wrap_cuda_queue(device_, handle);
  }
  std::unique_ptr<Event> make_event() const override { return make_cuda_event(device_); }
  std::unique_ptr<LaunchOrder> make_launch_order() const override {
    return make_cuda_launch_order(device_);
  }
  std::unique_ptr<Fork> make_fork(const Queue& queue, std::size_t count) const override {
    return make_cuda_fork(device_, queue, count);
  }
  std::unique_ptr<Recording> begin_recording() const override {
    return make_cuda_recording(device_);
  }

  std::shared_ptr<Collectives> make_collectives(Comm& comm, const std::vector<int>& ranks,
                                                const std::string& step,
                                                const NamedKernels& kernels) const override {
    if (traits().ranks_per_launch == 1 && ranks.size() > 1)
      return make_nccl_group(comm, ranks, step);
    return make_launch_collectives(static_cast<int>(ranks.size()), kernels);
  }
  void use_communicator(Comm& comm, void* communicator) const override {
    together(comm, [&] {
      if (comm.size() > 1 && traits().ranks_per_launch > 1) {
        throw BackendError(
            "World::use_nccl was called in a world whose ranks share a GPU, where collectives are "
            "kernels of this library; call it where every rank has a GPU");
      }
      require_nccl_of(comm, communicator);
    });
    comm.nccl() = communicator;
  }
  std::unique_ptr<LibraryMatmul> make_matmul(MatmulShape shape) const override {
    return make_cublas_matmul(*this, device_, std::move(shape));
  }
  std::int64_t rows_of_tile(std::int64_t rows, std::int64_t columns) const override {
    return rows_of_gpu_tile(rows, columns, device_.multiprocessors);
  }
  int processes_here(Comm& comm) const override {
    return ranks_of_gpu(comm, device_) / traits().ranks_per_launch;
  }
  Room room_for(Comm& comm, const Simultaneous& steps) const override {
    // Every block has a multiprocessor of its own, and a product half of the GPU.
    const int room = traits().processors / processes_here(comm) / (steps.multiplies ? 2 : 1);
    if (steps.blocks <= room) return {.enough = true, .problem = {}};
    return {.problem =
                fmt::format("{} blocks of their kernels wait for each other, and {} has room "
                            "for {}; lower the knob channels",
                            steps.blocks, device_.name, room)};
  }

 private:
  const Device& device_;
  std::unique_ptr<Queue> own_queue_;  ///< of allocations
  mutable std::mutex mutex_;
  mutable std::unique_ptr<NvrtcCompiler> compiler_;
};

}  // namespace

const Platform& cuda_platform_of(Comm& comm) {
  const Device& device = device_of(comm);
  const int ranks = ranks_on_device(comm);
  // Never destroyed: the driver may be gone before this process's static objects.
  static std::mutex mutex;
  static auto* const platforms =
      new std::map<std::pair<int, int>, const CudaPlatform*>;  // NOLINT: see above
  const std::lock_guard lock(mutex);
  const CudaPlatform*& platform = (*platforms)[{device.ordinal, ranks}];
  if (platform == nullptr) platform = new CudaPlatform(device, ranks);  // NOLINT: see above
  return *platform;
}

}  // namespace coconet::jit
