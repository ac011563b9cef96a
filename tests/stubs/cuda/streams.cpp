// Streams and their workers. STUB_CUDA_DELAY_US: every operation waits that long first, to widen
// races. STUB_CUDA_LAZY_MS: none begins before somebody waits for the device, or asks it, or this
// time is over.
#include "streams.h"

#include <map>
#include <thread>

#include "control.h"
#include "graphs.h"
#include "room.h"

namespace stub {
namespace {

StreamTable& streams() {
  return immortal<StreamTable>();
}

std::map<int, std::shared_ptr<Stream>>& legacy_streams() {
  return immortal<std::map<int, std::shared_ptr<Stream>>>();
}

CUresult run_unlocked(Lock& lock, Operation& operation) {
  lock.unlock();
  if (const long long delay = setting("STUB_CUDA_DELAY_US", 0); delay > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  const CUresult result = operation.run();
  lock.lock();
  return result;
}

// By device: the number of the last operation that may begin.
std::map<int, std::uint64_t>& awake() {
  return immortal<std::map<int, std::uint64_t>>();
}

std::uint64_t put_so_far = 0;

void wait_lazily(Lock& lock, Stream& stream, const Operation& operation) {
  const long long lazy = setting("STUB_CUDA_LAZY_MS", 0);
  if (lazy == 0) return;
  stream.changed.wait_until(lock, operation.put + std::chrono::milliseconds(lazy),
                            [&] { return awake()[stream.device] >= operation.number; });
}

void work(const std::shared_ptr<Stream>& stream) {
  Lock lock(mutex());
  while (true) {
    stream->changed.wait(lock, [&] { return stream->closing || !stream->queue.empty(); });
    if (stream->queue.empty()) return;
    Operation operation = std::move(stream->queue.front());
    wait_lazily(lock, *stream, operation);
    for (const auto& completion : operation.after) wait_for(lock, completion);
    released().wait(lock, [] { return !held(); });
    if (lost(stream->device) == CUDA_SUCCESS) {
      CUresult result = ordered_failure("operation");
      if (result == CUDA_SUCCESS) result = run_unlocked(lock, operation);
      if (result != CUDA_SUCCESS) lose(stream->device, result);
    }
    operation.completion->done = true;
    operation.completion->when = std::chrono::steady_clock::now();
    stream->queue.pop_front();
    operation.completion->reached.notify_all();
  }
}

// Workers are detached: a process may end while they wait, and destroying a stream does not wait
// for them.
void start_worker(const std::shared_ptr<Stream>& stream) {
  std::thread([stream] { work(stream); }).detach();
}

std::shared_ptr<Stream>& legacy_stream(int device) {
  std::shared_ptr<Stream>& stream = legacy_streams()[device];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>();
    stream->device = device;
    stream->legacy = true;
    start_worker(stream);
  }
  return stream;
}

// The legacy stream comes after all that blocking streams have, and before all that they get later.
std::vector<std::shared_ptr<Completion>> legacy_order(const Stream& stream) {
  std::vector<std::shared_ptr<Completion>> after;
  const auto add = [&](const Stream& other) {
    if (other.last != nullptr && !other.last->done) after.push_back(other.last);
  };
  if (stream.legacy) {
    for (const auto& [number, other] : streams().all()) {
      if (other->blocking && other->device == stream.device) add(*other);
    }
  } else if (stream.blocking) {
    const auto legacy = legacy_streams().find(stream.device);
    if (legacy != legacy_streams().end()) add(*legacy->second);
  }
  return after;
}

// A capture of a blocking stream cannot have the legacy stream wait for it.
bool breaks_capture(const Stream& stream) {
  bool breaks = false;
  if (!stream.legacy) return breaks;
  for (const auto& [number, other] : streams().all()) {
    if (other->blocking && other->device == stream.device) breaks |= forbid_in_capture(*other);
  }
  return breaks;
}

}  // namespace

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    if (current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    stream = legacy_stream(current_device());
  } else {
    stream = streams().find(handle);
  }
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : lost(stream->device);
}

std::shared_ptr<Completion> enqueue(Stream& stream, std::function<CUresult()> run) {
  Operation operation;
  operation.run = std::move(run);
  operation.after = legacy_order(stream);
  operation.completion = std::make_shared<Completion>();
  operation.number = ++put_so_far;
  operation.put = std::chrono::steady_clock::now();
  stream.last = operation.completion;
  stream.queue.push_back(std::move(operation));
  stream.changed.notify_one();
  return stream.last;
}

Submitted submit(Stream& stream, const char* what, std::function<CUresult()> run) {
  if (breaks_capture(stream)) return {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, nullptr};
  if (stream.capture == nullptr) return {CUDA_SUCCESS, enqueue(stream, std::move(run))};
  return {capture(stream, Node{.what = what, .run = std::move(run), .launch = nullptr}), nullptr};
}

void wait_for(Lock& lock, std::shared_ptr<Completion> completion) {
  if (completion != nullptr) completion->reached.wait(lock, [&] { return completion->done; });
}

void wake(int device) {
  awake()[device] = put_so_far;
  for (const auto& [number, stream] : streams().all()) stream->changed.notify_all();
  for (const auto& [number, stream] : legacy_streams()) stream->changed.notify_all();
}

void wait_for_device(Lock& lock, int device) {
  wake(device);
  std::vector<std::shared_ptr<Completion>> all;
  for (const auto& [number, stream] : streams().all()) {
    if (stream->device == device) all.push_back(stream->last);
  }
  const auto legacy = legacy_streams().find(device);
  if (legacy != legacy_streams().end()) all.push_back(legacy->second->last);
  for (const auto& completion : all) wait_for(lock, completion);
}

std::size_t live_streams() {
  return streams().size();
}

}  // namespace stub

using namespace stub;

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return ask("cuCtxGetStreamPriorityRange", Needs::context, [&](Lock&) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", Needs::context, [&](Lock&) {
    if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto stream = std::make_shared<Stream>();
    stream->device = current_device();
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    start_worker(stream);
    *handle = streams().add(stream);
    note("cuStreamCreateWithPriority", details("stream=", number_of(*handle),
                                               " device=", stream->device, " priority=", priority));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream handle) {
  return call("cuStreamDestroy", Needs::initialisation, [&](Lock&) {
    const auto stream = streams().find(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    streams().remove(handle);
    stream->closing = true;
    stream->changed.notify_one();
    note("cuStreamDestroy", details("stream=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return ask("cuStreamQuery", Needs::initialisation, [&](Lock&) {
    std::shared_ptr<Stream> stream;
    if (const CUresult found = find_stream(handle, stream); found != CUDA_SUCCESS) return found;
    if (forbid_in_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (breaks_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    wake(stream->device);
    return stream->queue.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return call("cuStreamSynchronize", Needs::initialisation, [&](Lock& lock) {
    std::shared_ptr<Stream> stream;
    if (const CUresult found = find_stream(handle, stream); found != CUDA_SUCCESS) return found;
    if (forbid_in_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (breaks_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    note("cuStreamSynchronize", details("stream=", number_of(handle)));
    const auto before = legacy_order(*stream);
    wake(stream->device);
    wait_for(lock, stream->last);
    if (stream->legacy) {
      for (const auto& completion : before) wait_for(lock, completion);
    }
    return lost(stream->device);
  });
}

CUresult stub_cuda_enqueue(CUstream handle, const char* what, unsigned processors,
                           int (*run)(void*), void (*drop)(void*), void* data) {
  const std::shared_ptr<void> owned(data, drop);
  return call_on(handle, what, Needs::context, [&](Lock&, auto& stream) {
    note(what, details("stream=", number_of(handle)));
    const int device = stream->device;
    return submit(*stream, what,
                  [=] {
                    const Running running(device, whole_processors(processors));
                    return static_cast<CUresult>(run(owned.get()));
                  })
        .result;
  });
}
