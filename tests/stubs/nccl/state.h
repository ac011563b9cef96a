// What all calls of the stub share: the lock, the log, failures that a test ordered, and the
// communicators.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include "communicators.h"

namespace stub {

using Lock = std::unique_lock<std::mutex>;

/// Adds a line to the log.
void note(const std::string& line);

/// details("rank=", 0, " ranks=", 2) is "rank=0 ranks=2".
template <class... Parts>
std::string details(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// `result`, with the sentence that ncclGetLastError says of it.
ncclResult_t fail(ncclResult_t result, const std::string& why);

/// The failure that a test ordered for this call of `function`, once; ncclSuccess for none.
ncclResult_t ordered_failure(const std::string& function);

/// What a test says of communicators that are well.
ncclResult_t async_error();

/// Runs `body(lock)` as NCCL's `function`, under the lock.
template <class Body>
ncclResult_t call(const char* function, Body body) {
  Lock lock(mutex());
  ncclResult_t result = ordered_failure(function);
  if (result == ncclSuccess) result = body(lock);
  if (result != ncclSuccess && result != ncclInProgress)
    note(details(function, " failed=", static_cast<int>(result)));
  return result;
}

/// The live communicators.
std::map<ncclComm_t, std::shared_ptr<Communicator>>& communicators();
/// Null for a handle that is none.
std::shared_ptr<Communicator> find(ncclComm_t handle);

/// Runs `body(communicator)` as NCCL's `function`, for the one of `handle`.
template <class Body>
ncclResult_t call_for(ncclComm_t handle, const char* function, Body body) {
  return call(function, [&](Lock&) {
    const auto communicator = find(handle);
    return communicator == nullptr ? fail(ncclInvalidArgument, "there is no such communicator")
                                   : body(communicator);
  });
}

/// A function of the stub of the driver, as the process loaded it; null without one.
void* driver_symbol(const char* name);

template <class Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(driver_symbol(name));
}

}  // namespace stub
