// Asks the CUDA driver and NCCL, as far as they are here; see doctor_cuda.h.
#include "cli/doctor_cuda.h"

#include <cstddef>
#include <cstdio>

#include "jit/compile/shared_library.h"

namespace coconet::cli {
namespace {

// The driver's interface, as cuda.h has it: CUresult and CUdevice are ints, 0 is success.
constexpr int capability_major = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int capability_minor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*memory)(std::size_t*, int) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  std::vector<std::string> missing;

  explicit Driver(const jit::SharedLibrary& file) {
    file.find("cuInit", init, missing);
    file.find("cuDriverGetVersion", version, missing);
    file.find("cuDeviceGetCount", device_count, missing);
    file.find("cuDeviceGet", device, missing);
    file.find("cuDeviceGetName", name, missing);
    file.find("cuDeviceGetAttribute", attribute, missing);
    file.find("cuDeviceTotalMem_v2", memory, missing);
    file.find("cuGetErrorName", error_name, missing);
  }

  [[nodiscard]] std::string error(int code) const {
    const char* text = nullptr;
    return error_name(code, &text) == 0 && text != nullptr ? text : "error " + std::to_string(code);
  }
};

Gpu describe_gpu(const Driver& driver, int index) {
  Gpu gpu;
  int device = 0;
  int major = 0;
  int minor = 0;
  std::size_t memory = 0;
  char name[128] = "";
  if (driver.device(&device, index) != 0 || driver.name(name, sizeof name, device) != 0 ||
      driver.attribute(&major, capability_major, device) != 0 ||
      driver.attribute(&minor, capability_minor, device) != 0 ||
      driver.memory(&memory, device) != 0) {
    gpu.description = "number " + std::to_string(index) + ", which the driver cannot describe";
    return gpu;
  }
  gpu.arch = "sm_" + std::to_string(major) + std::to_string(minor);
  char text[200];
  std::snprintf(text, sizeof text, "%s, %s, %.1f GiB", name, gpu.arch.c_str(),
                static_cast<double>(memory) / (1024.0 * 1024.0 * 1024.0));
  gpu.description = text;
  return gpu;
}

}  // namespace

DriverFacts probe_driver() {
  DriverFacts facts;
  const jit::SharedLibrary file({"libcuda.so.1"});
  if (!file.is_open()) {
    facts.problem = file.problem();
    return facts;
  }
  const Driver driver(file);
  if (!driver.missing.empty()) {
    facts.problem = "libcuda.so.1 is there and has no function " + driver.missing.front();
    return facts;
  }
  int version = 0;
  if (const int code = driver.version(&version); code != 0) {
    facts.problem = "libcuda.so.1 is there and does not tell its version: " + driver.error(code);
    return facts;
  }
  facts.major = version / 1000;
  facts.version = "CUDA " + std::to_string(facts.major) + "." + std::to_string(version % 1000 / 10);
  int count = 0;
  int code = driver.init(0);
  if (code == 0) code = driver.device_count(&count);
  if (code != 0) {
    facts.no_gpu = "the driver reports " + driver.error(code);
  } else if (count == 0) {
    facts.no_gpu = "the driver sees none";
  }
  for (int i = 0; i < count; ++i) facts.gpus.push_back(describe_gpu(driver, i));
  return facts;
}

NcclFacts probe_nccl() {
  NcclFacts facts;
  const jit::SharedLibrary file({"libnccl.so.2"});
  if (!file.is_open()) {
    facts.problem = file.problem();
    return facts;
  }
  int (*get_version)(int*) = nullptr;
  file.find("ncclGetVersion", get_version);
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) {
    facts.problem = "libnccl.so.2 is there and does not tell its version";
    return facts;
  }
  // major * 10000 + minor * 100 + patch since 2.9; before, major * 1000.
  const int unit = version < 10000 ? 1000 : 10000;
  facts.version = std::to_string(version / unit) + "." + std::to_string(version % unit / 100) +
                  "." + std::to_string(version % 100);
  return facts;
}

}  // namespace coconet::cli
