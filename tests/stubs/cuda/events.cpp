// Events: marks in the order of a stream, with the time when the stream came there.
#include "events.h"

#include "graphs.h"
#include "streams.h"

namespace stub {
namespace {

EventTable& events() {
  return immortal<EventTable>();
}

}  // namespace

std::size_t live_events() {
  return events().size();
}

CUresult elapsed(float* ms, CUevent start, CUevent end) {
  const auto from = events().find(start);
  const auto to = events().find(end);
  if (from == nullptr || to == nullptr || !from->timed || !to->timed ||
      from->device != to->device || from->recorded == nullptr || to->recorded == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (lost(from->device) != CUDA_SUCCESS) return lost(from->device);
  if (!from->recorded->done || !to->recorded->done) return CUDA_ERROR_NOT_READY;
  const std::chrono::duration<float, std::milli> time = to->recorded->when - from->recorded->when;
  *ms = time.count();
  return CUDA_SUCCESS;
}

}  // namespace stub

using namespace stub;

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  return call("cuEventCreate", Needs::context, [&](Lock&) {
    const auto event = std::make_shared<Event>();
    event->device = current_device();
    event->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    *handle = events().add(event);
    note("cuEventCreate", details("event=", number_of(*handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return call("cuEventDestroy", Needs::initialisation, [&](Lock&) {
    if (events().find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    events().remove(handle);
    note("cuEventDestroy", details("event=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call_on(stream_handle, "cuEventRecord", Needs::context, [&](Lock&, auto& stream) {
    const auto event = events().find(handle);
    if (event == nullptr || event->device != stream->device) return CUDA_ERROR_INVALID_HANDLE;
    note("cuEventRecord",
         details("event=", number_of(handle), " stream=", number_of(stream_handle)));
    if (stream->capture != nullptr) {
      event->capture = stream->capture;
      event->capturing = stream.get();
      event->behind = stream->capture->last[stream.get()];
      return CUDA_SUCCESS;
    }
    const Submitted submitted = submit(*stream, "record", [] { return CUDA_SUCCESS; });
    if (submitted.result != CUDA_SUCCESS) return submitted.result;
    event->recorded = submitted.completion;
    event->capture = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent handle) {
  return ask("cuEventQuery", Needs::initialisation, [&](Lock&) {
    const auto event = events().find(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    if (lost(event->device) != CUDA_SUCCESS) return lost(event->device);
    wake(event->device);
    const bool done = event->recorded == nullptr || event->recorded->done;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  return call_on(stream_handle, "cuStreamWaitEvent", Needs::context, [&](Lock&, auto& stream) {
    const auto event = events().find(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    note("cuStreamWaitEvent",
         details("event=", number_of(handle), " stream=", number_of(stream_handle)));
    if (event->capture != nullptr)
      return join(*stream, event->capture, event->capturing, event->behind);
    if (forbid_in_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (event->recorded == nullptr || event->recorded->done) return CUDA_SUCCESS;
    (void)enqueue(*stream, [] { return CUDA_SUCCESS; });
    stream->queue.back().after.push_back(event->recorded);
    return CUDA_SUCCESS;
  });
}
