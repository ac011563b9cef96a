// The lock, the log and ordered failures, and the functions by which a test reads and sets them.
#include "runtime.h"

#include <cstdlib>
#include <optional>
#include <vector>

#include "control.h"

namespace stub {
namespace {

struct Failure {
  std::string function;
  int skip;
  CUresult result;
};

// STUB_CUDA_FAIL is "function:skip:result".
std::vector<Failure> failures_of_environment() {
  const char* const text = std::getenv("STUB_CUDA_FAIL");
  if (text == nullptr) return {};
  std::istringstream fields(text);
  Failure failure{};
  std::string skip;
  std::string result;
  std::getline(fields, failure.function, ':');
  std::getline(fields, skip, ':');
  std::getline(fields, result, ':');
  failure.skip = std::atoi(skip.c_str());
  failure.result = static_cast<CUresult>(std::atoi(result.c_str()));
  return {failure};
}

struct Records {
  std::optional<std::string> log;  ///< nothing until a test clears it: long runs would fill memory
  std::vector<Failure> failures = failures_of_environment();
  bool held = false;
  bool initialised = false;
};

Records& records() {
  return immortal<Records>();
}

}  // namespace

std::mutex& mutex() {
  return immortal<std::mutex>();
}

std::condition_variable& released() {
  return immortal<std::condition_variable>();
}

long long setting(const char* name, long long fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

bool& held() {
  return records().held;
}

bool& initialised() {
  return records().initialised;
}

CUresult ordered_failure(const std::string& function) {
  std::vector<Failure>& failures = records().failures;
  CUresult result = CUDA_SUCCESS;
  for (Failure& failure : failures) {
    if (failure.function != function) continue;
    if (failure.skip-- == 0) result = failure.result;
  }
  std::erase_if(failures, [](const Failure& failure) { return failure.skip < 0; });
  return result;
}

CUresult refusal(const char* function, Needs needs) {
  if (const CUresult ordered = ordered_failure(function); ordered != CUDA_SUCCESS) return ordered;
  if (needs == Needs::nothing) return CUDA_SUCCESS;
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::initialisation) return CUDA_SUCCESS;
  return current_device() < 0 ? CUDA_ERROR_INVALID_CONTEXT : lost(current_device());
}

void note(const char* function, const std::string& details) {
  std::optional<std::string>& log = records().log;
  if (!log.has_value()) return;
  *log += function;
  if (!details.empty()) *log += " " + details;
  *log += '\n';
}

}  // namespace stub

using namespace stub;

const char* stub_cuda_calls() {
  thread_local std::string copy;
  const Lock lock(mutex());
  copy = records().log.value_or("");
  return copy.c_str();
}

void stub_cuda_clear() {
  const Lock lock(mutex());
  records().log.emplace();
}

void stub_cuda_fail(const char* function, int skip, int result) {
  const Lock lock(mutex());
  records().failures.push_back({function, skip, static_cast<CUresult>(result)});
}

void stub_cuda_hold(int on) {
  const Lock lock(mutex());
  held() = on != 0;
  released().notify_all();
}

void stub_cuda_heal() {
  const Lock lock(mutex());
  records().failures.clear();
  for (int device = 0; device < device_count(); ++device) lose(device, CUDA_SUCCESS);
  held() = false;
  released().notify_all();
}
