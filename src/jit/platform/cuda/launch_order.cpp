// One chain of events a GPU and process, recorded only where two streams take turns.
#include "jit/platform/cuda/launch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "coconet/error.h"
#include "jit/platform/cuda/driver.h"

namespace coconet::jit {

namespace {

/// What runs on a GPU last, of all executables that take turns there.
struct Chain {
  std::mutex mutex;
  std::map<const LaunchOrder*, std::optional<CUstream>> streams;  ///< once they are known
  bool busy = false;                                              ///< `last` may have work
  CUstream last = nullptr;
  bool is_applications = false;  ///< `last`
  bool recorded = false;         ///< `event` is behind that work
  CUevent event = nullptr;
};

Chain& chain_of(const Device& device) {
  // Never destroyed: the driver may be gone before this process's static objects.
  static std::mutex mutex;
  static auto* const chains = new std::map<int, Chain>;  // NOLINT: see above
  const std::lock_guard lock(mutex);
  return (*chains)[device.ordinal];
}

class CudaLaunchOrder final : public LaunchOrder {
 public:
  explicit CudaLaunchOrder(const Device& device) : device_(device), chain_(chain_of(device)) {
    const std::lock_guard lock(chain_.mutex);
    record_applications();
    chain_.streams[this] = std::nullopt;
  }
  ~CudaLaunchOrder() override {
    const std::lock_guard lock(chain_.mutex);
    chain_.streams.erase(this);
    if (!chain_.streams.empty()) return;
    if (chain_.event != nullptr) (void)call_on(device_, driver().event_destroy, chain_.event);
    chain_.event = nullptr;
    chain_.busy = false;  // every executable has waited for its work
  }

  std::unique_lock<std::mutex> begin_run(Queue& queue) override {
    // What the application records has the order that the application gives it.
    if (queue.being_recorded()) return {};
    std::unique_lock lock(chain_.mutex);
    auto* const stream = static_cast<CUstream>(queue.handle());
    // One handle stands for a stream of each thread.
    if (chain_.busy && (stream != chain_.last || stream == CU_STREAM_PER_THREAD)) {
      if (!chain_.recorded) record_last();
      check(call_on(device_, driver().stream_wait_event, stream, chain_.event, 0),
            "waiting for an event");
    }
    follow(queue);
    return lock;
  }
  void end_run(Queue& queue) override {
    if (queue.being_recorded()) return;
    auto* const stream = static_cast<CUstream>(queue.handle());
    chain_.streams[this] = stream;
    // An event that may be needed while the application captures its stream, or by another thread.
    if (stream == CU_STREAM_PER_THREAD || is_elsewhere(stream)) record_applications();
  }

  void moved(const Queue& from, const Queue& to) override {
    const std::lock_guard lock(chain_.mutex);
    if (chain_.busy && chain_.last == static_cast<CUstream>(from.handle())) follow(to);
    chain_.streams[this] = static_cast<CUstream>(to.handle());
    if (is_elsewhere(chain_.last)) record_applications();
  }
  void finished(const Queue& queue) override {
    const std::lock_guard lock(chain_.mutex);
    if (chain_.last == static_cast<CUstream>(queue.handle())) chain_.busy = false;
  }

 private:
  void follow(const Queue& queue) {
    chain_.busy = true;
    chain_.last = static_cast<CUstream>(queue.handle());
    chain_.is_applications = queue.is_applications();
    chain_.recorded = false;
  }
  /// Whether one of the executables may come next in another stream.
  [[nodiscard]] bool is_elsewhere(CUstream stream) const {
    return std::ranges::any_of(chain_.streams,
                               [&](const auto& row) { return row.second != stream; });
  }
  /// Only now is the application's stream sure not to be captured.
  void record_applications() {
    if (chain_.busy && chain_.is_applications && !chain_.recorded) record_last();
  }
  void record_last() {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (chain_.is_applications) {
      check(call_on(device_, driver().stream_is_capturing, chain_.last, &status),
            "asking whether a stream is captured");
    }
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) {
      throw BackendError(fmt::format(
          "an executable has work in a stream on {} that the application is capturing now, and no "
          "other executable can wait for it; compile, and call use_stream, before the capture "
          "begins or after it has ended",
          device_.name));
    }
    if (chain_.event == nullptr) {
      check(call_on(device_, driver().event_create, &chain_.event, CU_EVENT_DISABLE_TIMING),
            "making an event");
    }
    check(call_on(device_, driver().event_record, chain_.event, chain_.last),
          "putting executables in order on " + device_.name);
    chain_.recorded = true;
  }

  const Device& device_;
  Chain& chain_;
};

}  // namespace

std::unique_ptr<LaunchOrder> make_cuda_launch_order(const Device& device) {
  return std::make_unique<CudaLaunchOrder>(device);
}

}  // namespace coconet::jit
