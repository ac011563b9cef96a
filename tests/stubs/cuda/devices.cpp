// Devices, as many and as large as the environment says, and their primary contexts:
//   STUB_CUDA_VERSION    13000 for CUDA 13.0, the default
//   STUB_CUDA_INIT       what cuInit returns: 0, the default, or 100 for CUDA_ERROR_NO_DEVICE, ...
//   STUB_CUDA_DEVICES    how many GPUs there are, by default 1
//   STUB_CUDA_ARCH       their compute capability: 90 for sm_90, the default
//   STUB_CUDA_SMS        their multiprocessors, by default 4
//   STUB_CUDA_MEMORY     the bytes of each, by default 80 GiB
//   STUB_CUDA_VMM        0: no virtual memory management
//   STUB_CUDA_MULTICAST  1: devices have multicast; by default none has
//   STUB_CUDA_MPS        0: processes on a device have it in turns; else MPS runs them at once
//   STUB_CUDA_PEERS      0: no device reaches another's memory
//   STUB_CUDA_NVLINK     0: devices are connected by PCIe, without native atomics
//   STUB_CUDA_CONTEXTS   a file that gets a line "PROCESS DEVICE" for each primary context made
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "counts.h"
#include "handles.h"
#include "runtime.h"

namespace stub {
namespace {

struct Device {
  int retained = 0;
  std::size_t in_use = 0;
  CUresult lost = CUDA_SUCCESS;
};

std::map<int, Device>& devices() {
  return immortal<std::map<int, Device>>();
}

// The devices of this thread's contexts, the current one last.
std::vector<int>& stack() {
  thread_local std::vector<int> of_thread;
  return of_thread;
}

std::size_t memory_size() {
  return static_cast<std::size_t>(setting("STUB_CUDA_MEMORY", 80LL << 30));
}

CUcontext context_of(int device) {
  return make_handle<CUcontext>(Kind::context, static_cast<std::uint64_t>(device) + 1);
}

// -1 when `context` is none, or its device's context was released.
int device_of(CUcontext context) {
  for (const auto& [ordinal, device] : devices()) {
    if (device.retained > 0 && context == context_of(ordinal)) return ordinal;
  }
  return -1;
}

int attribute_value(CUdevice_attribute attribute) {
  constexpr int mps_enabled = 133;  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED of newer headers
  if (static_cast<int>(attribute) == mps_enabled) return setting("STUB_CUDA_MPS", 1) != 0 ? 1 : 0;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return architecture() / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return architecture() % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return multiprocessors();
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return setting("STUB_CUDA_VMM", 1) != 0 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      return setting("STUB_CUDA_MULTICAST", 0) != 0 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

int device_count() {
  return static_cast<int>(setting("STUB_CUDA_DEVICES", 1));
}

bool is_device(int device) {
  return device >= 0 && device < device_count();
}

int architecture() {
  return static_cast<int>(setting("STUB_CUDA_ARCH", 90));
}

int multiprocessors() {
  return static_cast<int>(setting("STUB_CUDA_SMS", 4));
}

bool peers_have_access() {
  return setting("STUB_CUDA_PEERS", 1) != 0;
}

int current_device() {
  return stack().empty() ? -1 : device_of(context_of(stack().back()));
}

bool take_memory(int device, std::size_t bytes) {
  std::size_t& in_use = devices()[device].in_use;
  if (bytes > memory_size() || in_use > memory_size() - bytes) return false;
  in_use += bytes;
  return true;
}

void give_memory(int device, std::size_t bytes) {
  devices()[device].in_use -= bytes;
}

std::size_t memory_in_use(int device) {
  return devices()[device].in_use;
}

std::size_t memory_in_use() {
  std::size_t sum = 0;
  for (const auto& [ordinal, device] : devices()) sum += device.in_use;
  return sum;
}

std::size_t live_contexts() {
  std::size_t count = 0;
  for (const auto& [ordinal, device] : devices()) count += device.retained > 0 ? 1 : 0;
  return count;
}

CUresult lost(int device) {
  return devices()[device].lost;
}

void lose(int device, CUresult result) {
  devices()[device].lost = result;
}

}  // namespace stub

using namespace stub;

CUresult cuInit(unsigned) {
  return call("cuInit", Needs::nothing, [&](Lock&) {
    const auto result = static_cast<CUresult>(setting("STUB_CUDA_INIT", CUDA_SUCCESS));
    initialised() = result == CUDA_SUCCESS;
    return result;
  });
}

CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("STUB_CUDA_VERSION", 13000));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  return ask("cuDeviceGetCount", Needs::initialisation, [&](Lock&) {
    *count = device_count();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return ask("cuDeviceGet", Needs::initialisation, [&](Lock&) {
    if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return ask("cuDeviceGetName", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "Stub %d", device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return ask("cuDeviceGetAttribute", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_value(attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  return ask("cuDeviceTotalMem", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = memory_size();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return ask("cuDeviceGetUuid", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "STUB CUDA GPU 00", sizeof(uuid->bytes));
    uuid->bytes[15] = static_cast<char>(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return ask("cuDeviceCanAccessPeer", Needs::initialisation, [&](Lock&) {
    if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && peers_have_access() ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  return ask("cuDeviceGetP2PAttribute", Needs::initialisation, [&](Lock&) {
    if (!is_device(device) || !is_device(peer) || device == peer) return CUDA_ERROR_INVALID_DEVICE;
    if (attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
      return CUDA_ERROR_INVALID_VALUE;
    *value = peers_have_access() && setting("STUB_CUDA_NVLINK", 1) != 0 ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const char* const file = std::getenv("STUB_CUDA_CONTEXTS");
    if (++devices()[device].retained == 1 && file != nullptr)
      std::ofstream(file, std::ios::app) << details(getpid(), " ", device) + "\n";
    *context = context_of(device);
    note("cuDevicePrimaryCtxRetain", details("device=", device));
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", Needs::initialisation, [&](Lock&) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (devices()[device].retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --devices()[device].retained;
    note("cuDevicePrimaryCtxRelease", details("device=", device));
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return ask("cuCtxGetCurrent", Needs::initialisation, [&](Lock&) {
    *context = stack().empty() ? nullptr : context_of(stack().back());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return call("cuCtxPushCurrent", Needs::initialisation, [&](Lock&) {
    const int device = device_of(context);
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    stack().push_back(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return call("cuCtxPopCurrent", Needs::initialisation, [&](Lock&) {
    if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = context_of(stack().back());
    stack().pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return ask("cuCtxGetDevice", Needs::context, [&](Lock&) {
    *device = current_device();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetInfo(std::size_t* unused, std::size_t* total) {
  return ask("cuMemGetInfo", Needs::context, [&](Lock&) {
    *total = memory_size();
    *unused = memory_size() - memory_in_use(current_device());
    return CUDA_SUCCESS;
  });
}
