// Streams, each with a thread that runs its operations in order; and events, which are marks in
// that order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "handles.h"
#include "runtime.h"

namespace stub {

struct Capture;

/// The end of an operation, for whoever waits for it.
struct Completion {
  bool done = false;
  std::condition_variable reached;
  std::chrono::steady_clock::time_point when;
};

struct Operation {
  std::function<CUresult()> run;  ///< without the lock
  std::uint64_t number = 0;       ///< in the order of calls
  std::chrono::steady_clock::time_point put;
  std::vector<std::shared_ptr<Completion>> after;
  std::shared_ptr<Completion> completion;
};

struct Stream {
  int device = 0;
  bool legacy = false;    ///< NULL
  bool blocking = false;  ///< ordered with the legacy stream
  bool closing = false;
  std::condition_variable changed;   ///< the queue, or that it closes, for the worker
  std::deque<Operation> queue;       ///< with the one that runs
  std::shared_ptr<Completion> last;  ///< of what was put in last; null before
  std::shared_ptr<Capture> capture;  ///< null when operations run
};

struct Event {
  int device = 0;
  bool timed = true;
  std::shared_ptr<Completion> recorded;  ///< null before the first record
  std::shared_ptr<Capture> capture;      ///< recorded in it
  Stream* capturing = nullptr;           ///< the stream of that record, to compare
  std::vector<CUgraphNode> behind;       ///< what the stream's next node would depend on then
};

using StreamTable = Table<Stream, CUstream, Kind::stream>;
using EventTable = Table<Event, CUevent, Kind::event>;

/// The stream of a handle; NULL is the current context's legacy stream. Also returns why its device
/// is lost.
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& stream);

/// Runs `body(lock, stream)` as the driver's `function`, for the stream of `handle`.
template <class Body>
CUresult call_on(CUstream handle, const char* function, Needs needs, Body body) {
  return call(function, needs, [&](Lock& lock) {
    std::shared_ptr<Stream> stream;
    const CUresult found = find_stream(handle, stream);
    return found == CUDA_SUCCESS ? body(lock, stream) : found;
  });
}

/// Puts an operation in the stream's order, whether or not it captures.
std::shared_ptr<Completion> enqueue(Stream& stream, std::function<CUresult()> run);

/// What a submission gives, executed or recorded by a capture.
struct Submitted {
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<Completion> completion;  ///< null when captured
};
Submitted submit(Stream& stream, const char* what, std::function<CUresult()> run);

/// Lets a device begin all that was put into its streams so far, because somebody looks.
void wake(int device);

/// The completion is its own: that of a stream's last operation is soon another.
void wait_for(Lock& lock, std::shared_ptr<Completion> completion);
void wait_for_device(Lock& lock, int device);

/// Invalidates the stream's capture if it has one, and says so.
bool forbid_in_capture(Stream& stream);
/// Invalidates the captures that forbid unsafe calls of this thread: its own and global ones.
bool forbid_in_captures_of_thread();

std::size_t live_streams();

}  // namespace stub
