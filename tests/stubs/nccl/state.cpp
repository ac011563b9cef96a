// The lock, the log and ordered failures; the functions by which a test reads and sets them; and
// errors as text. STUB_NCCL_VERSION is 22809 for 2.28.9, the default.
#include "state.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "control.h"

namespace stub {
namespace {

struct Failure {
  std::string function;
  int skip;
  ncclResult_t result;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
  std::optional<std::string> log;  ///< nothing until a test clears it: long runs would fill memory
  std::string last_error;
  std::vector<Failure> failures;
  ncclResult_t async = ncclSuccess;
};

// Lives until the process ends, as streams may still use it while other globals are destroyed.
State& state() {
  static State& all = *new State;
  return all;
}

}  // namespace

std::mutex& mutex() {
  return state().mutex;
}

std::condition_variable& changed() {
  return state().changed;
}

void note(const std::string& line) {
  if (state().log.has_value()) *state().log += line + "\n";
}

ncclResult_t fail(ncclResult_t result, const std::string& why) {
  state().last_error = why;
  return result;
}

ncclResult_t ordered_failure(const std::string& function) {
  ncclResult_t result = ncclSuccess;
  for (Failure& failure : state().failures) {
    if (failure.function == function && failure.skip-- == 0) result = failure.result;
  }
  std::erase_if(state().failures, [](const Failure& failure) { return failure.skip < 0; });
  return result;
}

ncclResult_t async_error() {
  return state().async;
}

std::map<ncclComm_t, std::shared_ptr<Communicator>>& communicators() {
  return state().communicators;
}

std::shared_ptr<Communicator> find(ncclComm_t handle) {
  const auto at = communicators().find(handle);
  return at == communicators().end() ? nullptr : at->second;
}

void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libstub_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

}  // namespace stub

using namespace stub;

ncclResult_t ncclGetVersion(int* version) {
  const char* const text = std::getenv("STUB_NCCL_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string copy;
  const Lock lock(mutex());
  copy = state().last_error;
  return copy.c_str();
}

const char* stub_nccl_calls() {
  thread_local std::string copy;
  const Lock lock(mutex());
  copy = state().log.value_or("");
  return copy.c_str();
}

void stub_nccl_clear() {
  const Lock lock(mutex());
  state().log.emplace();
}

void stub_nccl_fail(const char* function, int skip, int result) {
  const Lock lock(mutex());
  state().failures.push_back({function, skip, static_cast<ncclResult_t>(result)});
}

void stub_nccl_async(int result) {
  const Lock lock(mutex());
  state().async = static_cast<ncclResult_t>(result);
}

long long stub_nccl_live() {
  const Lock lock(mutex());
  return static_cast<long long>(state().communicators.size());
}
