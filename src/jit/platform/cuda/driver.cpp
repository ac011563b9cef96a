// Loading the driver.
#include "jit/platform/cuda/driver.h"

#include <vector>

#include "coconet/error.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {

namespace {

// cuLibraryLoadData came with CUDA 12.0.
constexpr int least_version = 12000;

#define COCONET_STRING_OF(text) #text
#define COCONET_SYMBOL(function) COCONET_STRING_OF(function)

std::string version_text(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Driver load() {
  Driver driver;
  const SharedLibrary file({"libcuda.so.1"});
  if (!file.is_open()) {
    driver.unavailable = file.problem();
    return driver;
  }
  std::vector<std::string> missing;
  file.find("cuDriverGetVersion", driver.version, missing);
  if (!missing.empty() || driver.version(&driver.number) != CUDA_SUCCESS) {
    driver.unavailable = "libcuda.so.1 is there and does not tell its version";
    return driver;
  }
#define COCONET_FIND(member, function) file.find(COCONET_SYMBOL(function), driver.member, missing);
  COCONET_DRIVER_FUNCTIONS(COCONET_FIND)
#undef COCONET_FIND
#define COCONET_FIND(member, function) file.find(COCONET_SYMBOL(function), driver.member);
  COCONET_MULTICAST_FUNCTIONS(COCONET_FIND)
#undef COCONET_FIND
  file.find("cuEventElapsedTime", driver.event_elapsed, missing);
  file.find("cuStreamGetCaptureInfo_v2", driver.stream_capture_info, missing);
  if (driver.number < least_version) {
    driver.unavailable =
        "it is for CUDA " + version_text(driver.number) + ", and 12.0 or later is needed";
  } else if (!missing.empty()) {
    driver.unavailable = "libcuda.so.1 is there and has no function " + missing.front();
  } else if (const CUresult result = driver.init(0); result != CUDA_SUCCESS) {
    const char* name = nullptr;
    const bool known = driver.error_name(result, &name) == CUDA_SUCCESS && name != nullptr;
    driver.no_device =
        "the driver reports " + (known ? std::string(name) : "error " + std::to_string(result));
  }
  return driver;
}

}  // namespace

bool Driver::knows_multicast() const {
  bool knows = true;
#define COCONET_KNOWS(member, function) knows = knows && (member) != nullptr;
  COCONET_MULTICAST_FUNCTIONS(COCONET_KNOWS)
#undef COCONET_KNOWS
  return knows;
}

const Driver& loaded_driver() {
  static const Driver loaded = load();
  return loaded;
}

const Driver& driver() {
  const Driver& loaded = loaded_driver();
  if (!loaded.unavailable.empty()) {
    throw BackendError("there is no CUDA driver to use: " + loaded.unavailable +
                       "; install NVIDIA's driver, start the container with --gpus all, or set "
                       "COCONET_BACKEND=host ('coconet doctor' says more)");
  }
  if (!loaded.no_device.empty()) {
    throw BackendError("no GPU can be used: " + loaded.no_device +
                       "; check nvidia-smi and CUDA_VISIBLE_DEVICES, or set COCONET_BACKEND=host");
  }
  return loaded;
}

std::string describe(CUresult result) {
  const Driver& loaded = loaded_driver();
  const char* name = nullptr;
  const char* text = nullptr;
  if (loaded.error_name == nullptr || loaded.error_name(result, &name) != CUDA_SUCCESS ||
      name == nullptr) {
    return "error " + std::to_string(result);
  }
  const bool explained =
      loaded.error_string(result, &text) == CUDA_SUCCESS && text != nullptr && *text != '\0';
  return explained ? std::string(name) + " (" + text + ")" : std::string(name);
}

void check(CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return;
  throw BackendError(std::string(what) + ": the driver reports " + describe(result));
}

}  // namespace coconet::jit
