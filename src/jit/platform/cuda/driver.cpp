// Loading the driver.
#include "jit/platform/cuda/driver.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

// cuLibraryLoadData came with CUDA 12.0.
constexpr int least_cuda = 12000;

Driver load_driver() {
  Driver driver;
  const SharedLibrary file({"libcuda.so.1"});
  driver.file = file.file();
  std::vector<std::string> missing = driver.DriverFunctions::find_in(file);
  driver.knows_multicast = driver.MulticastFunctions::find_in(file).empty();
  file.find("cuEventElapsedTime", driver.event_elapsed, missing);
  file.find("cuStreamGetCaptureInfo_v2", driver.stream_capture_info, missing);
  if (!file.is_open()) {
    driver.unavailable = file.problem();
  } else if (driver.get_version == nullptr || driver.get_version(&driver.number) != CUDA_SUCCESS) {
    driver.unavailable = "libcuda.so.1 is there and does not tell its version";
  } else if (driver.number < least_cuda) {
    driver.unavailable = "it is for CUDA " + driver.version() + ", and 12.0 or later is needed";
  } else if (!missing.empty()) {
    driver.unavailable = "libcuda.so.1 is there and has no function " + missing.front();
  } else if (const CUresult result = driver.init(0); result != CUDA_SUCCESS) {
    driver.no_device = "the driver reports " + driver.name_of(result);
  }
  return driver;
}

}  // namespace

std::string Driver::version() const {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string Driver::name_of(CUresult result) const {
  const char* name = nullptr;
  const bool known = error_name != nullptr && error_name(result, &name) == CUDA_SUCCESS;
  return known && name != nullptr ? name : fmt::format("error {}", static_cast<int>(result));
}

const Driver& loaded_driver() {
  static const Driver loaded = load_driver();
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
  const char* text = nullptr;
  const bool explained = loaded.error_string != nullptr &&
                         loaded.error_string(result, &text) == CUDA_SUCCESS && text != nullptr &&
                         *text != '\0';
  return loaded.name_of(result) + (explained ? fmt::format(" ({})", text) : "");
}

void check(CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return;
  throw BackendError(fmt::format("{}: the driver reports {}", what, describe(result)));
}

}  // namespace coconet::jit
