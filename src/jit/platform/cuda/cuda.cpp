// GPUs and their primary contexts.
#include <array>
#include <cstdio>
#include <map>
#include <mutex>

#include "coconet/error.h"
#include "jit/platform/cuda/device.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/facts.h"

namespace coconet::jit {

namespace {

int attribute(const Driver& cuda, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  check(cuda.device_attribute(&value, which, device), "asking for a property of a GPU");
  return value;
}

CUcontext as_context(void* context) {
  return static_cast<CUcontext>(context);
}

bool has_shared_memory(const Driver& cuda, CUdevice device) {
  return attribute(cuda, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) != 0 &&
         attribute(cuda, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) !=
             0;
}

bool has_multicast(const Driver& cuda, CUdevice device) {
  return cuda.knows_multicast() &&
         attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) != 0;
}

std::string arch_of(const Driver& cuda, CUdevice device) {
  return "sm_" +
         std::to_string(attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)) +
         std::to_string(attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
}

std::string name_of(const Driver& cuda, CUdevice device) {
  std::array<char, 128> name{};
  check(cuda.device_name(name.data(), static_cast<int>(name.size()), device),
        "asking for the name of a GPU");
  return name.data();
}

GpuFacts describe_gpu(const Driver& cuda, int index) {
  GpuFacts gpu;
  try {
    CUdevice device = 0;
    std::size_t memory = 0;
    check(cuda.device_get(&device, index), "finding GPU " + std::to_string(index));
    check(cuda.device_memory(&memory, device), "asking for the memory of a GPU");
    gpu.arch = arch_of(cuda, device);
    gpu.shares_memory = has_shared_memory(cuda, device);
    gpu.multicasts = has_multicast(cuda, device);
    std::array<char, 64> size{};
    std::snprintf(size.data(), size.size(), "%.1f GiB",
                  static_cast<double>(memory) / (1024.0 * 1024.0 * 1024.0));
    gpu.description = name_of(cuda, device) + ", " + gpu.arch + ", " + size.data();
  } catch (const BackendError& error) {
    gpu.description = "number " + std::to_string(index) + ": " + error.what();
  }
  return gpu;
}

}  // namespace

int Device::count() {
  int count = 0;
  check(driver().device_count(&count), "counting the GPUs");
  return count;
}

int Device::current() {
  const Driver& cuda = driver();
  CUcontext context = nullptr;
  CUdevice device = 0;
  check(cuda.context_current(&context), "asking for the current CUDA context");
  if (context == nullptr) return -1;
  check(cuda.context_device(&device), "asking for the GPU of the current CUDA context");
  return device;  // a CUdevice is its ordinal
}

const Device& Device::at(int ordinal) {
  // Never destroyed: the driver may be gone before this process's static objects.
  static std::mutex mutex;
  static auto* const devices = new std::map<int, const Device*>;  // NOLINT: see above
  const std::lock_guard lock(mutex);
  const Device*& device = (*devices)[ordinal];
  if (device == nullptr) device = new Device(ordinal);  // NOLINT: see above
  return *device;
}

Device::Device(int ordinal) : ordinal_(ordinal) {
  const int gpus = count();
  if (ordinal < 0 || ordinal >= gpus) {
    throw BackendError(
        gpus == 0 ? "the CUDA driver shows no GPU to this process; check nvidia-smi and "
                    "CUDA_VISIBLE_DEVICES, or set COCONET_BACKEND=host"
                  : "GPU " + std::to_string(ordinal) + " was asked for; the driver shows " +
                        std::to_string(gpus) + ", numbered from 0, to this process");
  }
  const Driver& cuda = driver();
  CUdevice device = 0;
  check(cuda.device_get(&device, ordinal), "finding GPU " + std::to_string(ordinal));
  name_ = name_of(cuda, device) + ", GPU " + std::to_string(ordinal);
  arch_ = arch_of(cuda, device);
  CUuuid uuid{};
  check(cuda.device_uuid(&uuid, device), "asking for the identity of " + name_);
  uuid_.assign(uuid.bytes, sizeof uuid.bytes);
  multiprocessors_ = attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  shares_memory_ = has_shared_memory(cuda, device);
  CUcontext context = nullptr;
  check(cuda.primary_context_retain(&context, device), "starting to use " + name_);
  context_ = context;
}

bool Device::multicasts() const {
  return has_multicast(driver(), ordinal_);  // a CUdevice is its ordinal
}

OnDevice::OnDevice(const Device& device) noexcept {
  const Driver& cuda = loaded_driver();
  CUcontext current = nullptr;
  if (cuda.context_current(&current) != CUDA_SUCCESS || current == as_context(device.context()))
    return;
  pushed_ = cuda.context_push(as_context(device.context())) == CUDA_SUCCESS;
}

OnDevice::~OnDevice() {
  CUcontext popped = nullptr;
  if (pushed_) (void)loaded_driver().context_pop(&popped);
}

DriverFacts driver_facts() {
  DriverFacts facts;
  const Driver& cuda = loaded_driver();
  facts.major = cuda.number / 1000;
  if (cuda.number > 0) {
    facts.version =
        "CUDA " + std::to_string(facts.major) + "." + std::to_string(cuda.number % 1000 / 10);
  }
  facts.problem = cuda.unavailable;
  if (!facts.problem.empty()) return facts;
  facts.no_gpu = cuda.no_device;
  int count = 0;
  if (facts.no_gpu.empty()) {
    const CUresult result = cuda.device_count(&count);
    if (result != CUDA_SUCCESS) facts.no_gpu = "the driver reports " + describe(result);
    if (result == CUDA_SUCCESS && count == 0) facts.no_gpu = "the driver sees none";
  }
  for (int i = 0; i < count; ++i) facts.gpus.push_back(describe_gpu(cuda, i));
  return facts;
}

}  // namespace coconet::jit
