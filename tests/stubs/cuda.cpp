// A CUDA driver for machines without one: it answers what `coconet doctor` asks, as STUB_CUDA_* variables say.
//   STUB_CUDA_VERSION   13000 for CUDA 13.0, the default
//   STUB_CUDA_INIT      what cuInit returns: 0, the default, or a CUresult such as 100, CUDA_ERROR_NO_DEVICE
//   STUB_CUDA_DEVICES   how many GPUs there are, by default 1
//   STUB_CUDA_ARCH      their compute capability as in sm_90, the default: 90
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int success = 0;
constexpr int invalid_value = 1;
constexpr int capability_major = 75;

int setting(const char* name, int fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

}  // namespace

#define STUB extern "C" __attribute__((visibility("default"))) int

STUB cuInit(unsigned) {
  return setting("STUB_CUDA_INIT", success);
}

STUB cuDriverGetVersion(int* version) {
  *version = setting("STUB_CUDA_VERSION", 13000);
  return success;
}

STUB cuDeviceGetCount(int* count) {
  *count = setting("STUB_CUDA_DEVICES", 1);
  return success;
}

STUB cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < setting("STUB_CUDA_DEVICES", 1) ? success : invalid_value;
}

STUB cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<std::size_t>(length), "Stub %d", device);
  return success;
}

STUB cuDeviceGetAttribute(int* value, int attribute, int) {
  const int arch = setting("STUB_CUDA_ARCH", 90);
  *value = attribute == capability_major ? arch / 10 : arch % 10;
  return success;
}

STUB cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{80} << 30;
  return success;
}

STUB cuGetErrorName(int code, const char** name) {
  *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : nullptr;
  return code == 100 ? success : invalid_value;
}
