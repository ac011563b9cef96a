// What GPUs tell of themselves, and their primary contexts.

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "coconet/error.h"
#include "jit/comm/comm.h"
#include "jit/config/log.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/cuda/facts.h"

namespace coconet::jit {

namespace {

int attribute(CUdevice_attribute which, CUdevice device) {
  int value = 0;
  check(driver().device_attribute(&value, which, device), "asking for a property of a GPU");
  return value;
}

bool has_shared_memory(CUdevice device) {
  return attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) != 0 &&
         attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) != 0;
}

bool has_multicast(CUdevice device) {
  return driver().knows_multicast &&
         attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) != 0;
}

/// Whether processes on `device` have it in turns: not where MPS runs them, or nobody knows.
bool is_time_sliced(const Device& device) {
  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which older headers and drivers do not know.
  constexpr auto served = static_cast<CUdevice_attribute>(133);
  int by_mps = 0;
  return driver().device_attribute(&by_mps, served, device.ordinal) == CUDA_SUCCESS && by_mps == 0;
}

std::string arch_of(CUdevice device) {
  return fmt::format("sm_{}{}", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                     attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
}

std::string gpu_name(CUdevice device) {
  std::array<char, 128> name{};
  check(driver().device_name(name.data(), static_cast<int>(name.size()), device),
        "asking for the name of a GPU");
  return name.data();
}

CUdevice find_gpu(int ordinal) {
  CUdevice device = 0;
  check(driver().device_get(&device, ordinal), fmt::format("finding GPU {}", ordinal));
  return device;
}

std::string uuid_of(CUdevice device) {
  CUuuid identity{};
  check(driver().device_uuid(&identity, device),
        "asking for the identity of " + Device::name_of(device));
  return {identity.bytes, sizeof identity.bytes};
}

GpuFacts describe_gpu(int ordinal) {
  GpuFacts gpu;
  try {
    const CUdevice device = find_gpu(ordinal);
    std::size_t memory = 0;
    check(driver().device_memory(&memory, device), "asking for the memory of a GPU");
    gpu.arch = arch_of(device);
    gpu.shares_memory = has_shared_memory(device);
    gpu.multicasts = has_multicast(device);
    gpu.description = fmt::format("{}, {}, {:.1f} GiB", gpu_name(device), gpu.arch,
                                  static_cast<double>(memory) / (1 << 30));
  } catch (const BackendError& error) {
    gpu.description = fmt::format("number {}: {}", ordinal, error.what());
  }
  return gpu;
}

/// The GPU whose context is current on this thread, or -1.
int current_gpu() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  check(driver().context_current(&context), "asking for the current CUDA context");
  if (context == nullptr) return -1;
  check(driver().context_device(&device), "asking for the GPU of the current CUDA context");
  return device;  // a CUdevice is its ordinal
}

}  // namespace

int Device::count() {
  int count = 0;
  check(driver().device_count(&count), "counting the GPUs");
  return count;
}

std::string Device::name_of(int ordinal) {
  return fmt::format("{}, GPU {}", gpu_name(find_gpu(ordinal)), ordinal);
}

int Device::find(const std::string& uuid) {
  for (int ordinal = 0; ordinal < count(); ++ordinal) {
    if (uuid_of(find_gpu(ordinal)) == uuid) return ordinal;
  }
  return -1;
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

Device::Device(int number) : ordinal(number) {
  const int gpus = count();
  if (gpus == 0) {
    throw BackendError(
        "the CUDA driver shows no GPU to this process; check nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or set COCONET_BACKEND=host");
  }
  if (ordinal < 0 || ordinal >= gpus) {
    throw BackendError(
        fmt::format("GPU {} was asked for; the driver shows {}, numbered from 0, to this process",
                    ordinal, gpus));
  }
  const CUdevice device = find_gpu(ordinal);
  name = name_of(ordinal);
  arch = arch_of(device);
  uuid = uuid_of(device);
  multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  shares_memory = has_shared_memory(device);
  CUcontext made = nullptr;
  check(driver().primary_context_retain(&made, device), "starting to use " + name);
  context = made;
}

bool Device::multicasts() const {
  return has_multicast(ordinal);
}

OnDevice::OnDevice(const Device& device) noexcept {
  const Driver& cuda = loaded_driver();
  auto* const context = static_cast<CUcontext>(device.context);
  CUcontext current = nullptr;
  if (cuda.context_current(&current) != CUDA_SUCCESS || current == context) return;
  pushed_ = cuda.context_push(context) == CUDA_SUCCESS;
}

OnDevice::~OnDevice() {
  CUcontext popped = nullptr;
  if (pushed_) (void)loaded_driver().context_pop(&popped);
}

const Device& device_of(Comm& comm) {
  if (&comm.node() != &comm) return device_of(comm.node());
  if (comm.gpu() < 0) {
    const int gpus = Device::count();
    if (comm.in_one_process() && comm.size() > 1) {
      comm.gpu() = comm.size() <= gpus ? comm.rank() : 0;
    } else {
      const int chosen = current_gpu();
      comm.gpu() = chosen >= 0 ? chosen : gpus == 0 ? 0 : comm.rank() % gpus;
    }
  }
  return Device::at(comm.gpu());
}

int ranks_on_device(Comm& comm) {
  return comm.in_one_process() && comm.size() > Device::count() ? comm.size() : 1;
}

int ranks_of_gpu(Comm& comm, const Device& device) {
  // Identities are unique, also among machines.
  const std::vector<std::string> uuids = comm.all_gather(device.uuid);
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (uuids[rank] == device.uuid) ranks.push_back(rank);
  }
  const bool in_processes = ranks.size() > 1 && !comm.in_one_process();
  static std::atomic<bool> told = false;
  if (in_processes && ranks.front() == comm.rank() && is_time_sliced(device) &&
      !told.exchange(true)) {
    log_warn(fmt::format(
        "ranks {} share {} in several processes without MPS: the driver runs one process at a "
        "time, so that kernels that wait for each other go on only as their time slices come; "
        "start MPS (nvidia-cuda-mps-control -d), give every rank a GPU, or make the ranks threads "
        "with World::local",
        fmt::join(ranks, ", "), device.name));
  }
  return static_cast<int>(ranks.size());
}

DriverFacts driver_facts() {
  DriverFacts facts;
  const Driver& cuda = loaded_driver();
  facts.major = cuda.number / 1000;
  if (cuda.number > 0) facts.version = "CUDA " + cuda.version();
  facts.file = cuda.file;
  facts.problem = cuda.unavailable;
  if (!facts.problem.empty()) return facts;
  facts.no_gpu = cuda.no_device;
  int count = 0;
  if (facts.no_gpu.empty()) {
    const CUresult result = cuda.device_count(&count);
    if (result != CUDA_SUCCESS) facts.no_gpu = "the driver reports " + describe(result);
    if (result == CUDA_SUCCESS && count == 0) facts.no_gpu = "the driver sees none";
  }
  for (int i = 0; i < count; ++i) facts.gpus.push_back(describe_gpu(i));
  return facts;
}

}  // namespace coconet::jit
