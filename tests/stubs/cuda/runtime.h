// What all calls of the stub share: the lock, the log, failures that a test ordered, and the
// current context.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <sstream>
#include <string>

#include "driver_api.h"

namespace stub {

/// State that lives until the process ends, as workers may still use it while other globals are
/// destroyed.
template <class T>
T& immortal() {
  static T& object = *new T;
  return object;
}

using Lock = std::unique_lock<std::mutex>;

/// One lock for all state; operations of streams run without it. Workers wait for `released` while
/// they are `held`.
std::mutex& mutex();
std::condition_variable& released();

/// An environment variable's number, read anew at each call.
long long setting(const char* name, long long fallback);

int device_count();
bool is_device(int device);
/// Of every device: 90 for sm_90, and its streaming multiprocessors.
int architecture();
int multiprocessors();
bool peers_have_access();

/// The device whose context is current in this thread; -1 without one.
int current_device();

/// Bytes of device memory in use; false when `bytes` more do not fit.
bool take_memory(int device, std::size_t bytes);
void give_memory(int device, std::size_t bytes);
std::size_t memory_in_use(int device);
std::size_t memory_in_use();

/// The error that ended a device's context: a failed operation's. All later calls return it.
CUresult lost(int device);
void lose(int device, CUresult result);

enum class Needs { nothing, initialisation, context };

/// Why a call does not get to its body: a failure that a test ordered, or what it needs and is not
/// there.
CUresult refusal(const char* function, Needs needs);

/// Adds the line "<function> <details>" to the log.
void note(const char* function, const std::string& details = {});

/// details("bytes=", 4, " stream=", 1) is "bytes=4 stream=1".
template <class... Parts>
std::string details(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Runs `body(lock)` as the driver's `function`, under the lock.
template <class Body>
CUresult ask(const char* function, Needs needs, Body body) {
  Lock lock(mutex());
  const CUresult refused = refusal(function, needs);
  return refused == CUDA_SUCCESS ? body(lock) : refused;
}

/// Runs a call that changes state; a failure goes to the log.
template <class Body>
CUresult call(const char* function, Needs needs, Body body) {
  Lock lock(mutex());
  CUresult result = refusal(function, needs);
  if (result == CUDA_SUCCESS) result = body(lock);
  if (result != CUDA_SUCCESS) note(function, details("failed=", static_cast<int>(result)));
  return result;
}

/// The failure that a test ordered for this call of `function`, once; CUDA_SUCCESS for none.
CUresult ordered_failure(const std::string& function);

/// While true, workers start no operation.
bool& held();

/// Whether cuInit was called and did well.
bool& initialised();

}  // namespace stub
