// Streams and kernels of the CUDA platform. For .cpp files of builds with CUDA only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/platform/cuda/device.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class CudaKernel final : public Kernel {
 public:
  CudaKernel(const Device& device, std::string_view binary, const std::string& entry, int ranks);
  ~CudaKernel() override;

  [[nodiscard]] int resident_blocks(int threads) const override;
  [[nodiscard]] int most_threads() const override;
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
  struct Application {
    void* stream;
  };
  /// Whether the legacy default stream waits for a stream and is waited for by it.
  enum class Order { with_default, alone };
  /// A stream of its own. Ordered with the default stream, so that an application that knows only
  /// that one needs no further order. `recorded` collects the launches of a stream that is being
  /// captured, which must be alone.
  CudaQueue(const Device& device, Order order, std::vector<RecordedLaunch>* recorded = nullptr);
  CudaQueue(const Device& device, Application application)
      : device_(device), owned_(false), stream_(static_cast<CUstream>(application.stream)) {}
  ~CudaQueue() override;

  [[nodiscard]] CUstream stream() const { return stream_; }
  void launch(const Kernel& kernel, const Grid& grid,
              std::span<const std::uint64_t> words) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                 std::size_t bytes, std::size_t rows) override;
  void zero(void* at, std::size_t bytes) override;
  [[nodiscard]] std::size_t launches() const override {
    return recorded_ != nullptr ? recorded_->size() : launches_;
  }
  [[nodiscard]] bool idle() const override;
  void finish() override;
  [[nodiscard]] void* handle() const override { return stream_; }
  [[nodiscard]] bool being_recorded() const override;
  /// A stream for work that runs beside this one's, and is recorded where this one's is. Events
  /// order the two.
  [[nodiscard]] std::unique_ptr<CudaQueue> make_beside() const {
    return std::make_unique<CudaQueue>(device_, Order::alone, recorded_);
  }

 private:
  void record_launch(const CudaKernel& kernel, const Grid& grid);

  const Device& device_;
  bool owned_;
  CUstream stream_ = nullptr;
  std::vector<RecordedLaunch>* recorded_ = nullptr;
  std::size_t launches_ = 0;
};

/// Whether `result`, of asking for a stream's or an event's work, says that all is done. Throws
/// BackendError when it failed.
[[nodiscard]] bool is_done(CUresult result, const Device& device);

// As the functions of Platform.
[[nodiscard]] std::unique_ptr<Event> make_cuda_event(const Device& device);
[[nodiscard]] std::unique_ptr<Fork> make_cuda_fork(const Device& device, const CudaQueue& queue,
                                                   std::size_t count);
[[nodiscard]] std::unique_ptr<Graph> record_cuda_graph(const Device& device,
                                                       const std::function<void(Queue&)>& body);

}  // namespace coconet::jit
