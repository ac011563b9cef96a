// Probes of the CUDA driver and NCCL with dlopen; see doctor_cuda.h.
#include "cli/doctor_cuda.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace coconet::cli {
namespace {

/// A library that is open while this lives.
class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
    if (handle_) return;
    const char* reason = dlerror();
    problem_ = reason ? reason : std::string(name) + " cannot be opened";
  }
  ~Library() {
    if (handle_) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The function `name`, or null.
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
  std::string problem_;
};

// The driver's interface, as cuda.h has it: CUresult and CUdevice are ints, 0 is success.
constexpr int capability_major = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int capability_minor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR

std::string describe_gpu(const Library& driver, int index) {
  const auto get = driver.find<int(int*, int)>("cuDeviceGet");
  const auto get_name = driver.find<int(char*, int, int)>("cuDeviceGetName");
  const auto get_attribute = driver.find<int(int*, int, int)>("cuDeviceGetAttribute");
  const auto get_memory = driver.find<int(std::size_t*, int)>("cuDeviceTotalMem_v2");
  int device = 0;
  int major = 0;
  int minor = 0;
  std::size_t memory = 0;
  char name[128] = "";
  if (!get || !get_name || !get_attribute || !get_memory || get(&device, index) != 0 ||
      get_name(name, sizeof name, device) != 0 ||
      get_attribute(&major, capability_major, device) != 0 ||
      get_attribute(&minor, capability_minor, device) != 0 || get_memory(&memory, device) != 0) {
    return "number " + std::to_string(index) + ", which the driver cannot describe";
  }
  char text[200];
  std::snprintf(text, sizeof text, "%s, sm_%d%d, %.1f GiB", name, major, minor,
                static_cast<double>(memory) / (1024.0 * 1024.0 * 1024.0));
  return text;
}

}  // namespace

DriverFacts probe_driver() {
  DriverFacts facts;
  const Library driver("libcuda.so.1");
  if (!driver.open()) {
    facts.problem = driver.problem();
    return facts;
  }
  const auto init = driver.find<int(unsigned)>("cuInit");
  const auto get_version = driver.find<int(int*)>("cuDriverGetVersion");
  const auto get_count = driver.find<int(int*)>("cuDeviceGetCount");
  int version = 0;
  if (!init || !get_version || !get_count || get_version(&version) != 0) {
    facts.problem = "libcuda.so.1 is there and is not a working CUDA driver";
    return facts;
  }
  facts.version =
      "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  int count = 0;
  if (init(0) != 0 || get_count(&count) != 0) return facts;
  for (int i = 0; i < count; ++i) facts.gpus.push_back(describe_gpu(driver, i));
  return facts;
}

NcclFacts probe_nccl() {
  NcclFacts facts;
  const Library nccl("libnccl.so.2");
  if (!nccl.open()) {
    facts.problem = nccl.problem();
    return facts;
  }
  const auto get_version = nccl.find<int(int*)>("ncclGetVersion");
  int version = 0;
  if (!get_version || get_version(&version) != 0) {
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
