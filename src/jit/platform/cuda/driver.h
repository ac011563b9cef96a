// CUDA's driver as a table of functions, found at run time. For .cpp files of builds with CUDA
// only, as cuda.h is large.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "jit/platform/cuda/device.h"
#include "jit/platform/shared_library.h"

namespace coconet::jit {

#define COCONET_DRIVER_FUNCTIONS(FUNCTION)                         \
  FUNCTION(init, cuInit)                                           \
  FUNCTION(get_version, cuDriverGetVersion)                        \
  FUNCTION(error_name, cuGetErrorName)                             \
  FUNCTION(error_string, cuGetErrorString)                         \
  FUNCTION(device_count, cuDeviceGetCount)                         \
  FUNCTION(device_get, cuDeviceGet)                                \
  FUNCTION(device_name, cuDeviceGetName)                           \
  FUNCTION(device_attribute, cuDeviceGetAttribute)                 \
  FUNCTION(device_memory, cuDeviceTotalMem)                        \
  FUNCTION(device_uuid, cuDeviceGetUuid)                           \
  FUNCTION(device_can_access_peer, cuDeviceCanAccessPeer)          \
  FUNCTION(device_peer_attribute, cuDeviceGetP2PAttribute)         \
  FUNCTION(primary_context_retain, cuDevicePrimaryCtxRetain)       \
  FUNCTION(context_current, cuCtxGetCurrent)                       \
  FUNCTION(context_push, cuCtxPushCurrent)                         \
  FUNCTION(context_pop, cuCtxPopCurrent)                           \
  FUNCTION(context_device, cuCtxGetDevice)                         \
  FUNCTION(memory_info, cuMemGetInfo)                              \
  FUNCTION(memory_alloc_async, cuMemAllocAsync)                    \
  FUNCTION(memory_free_async, cuMemFreeAsync)                      \
  FUNCTION(host_alloc, cuMemHostAlloc)                             \
  FUNCTION(host_free, cuMemFreeHost)                               \
  FUNCTION(copy_async, cuMemcpyAsync)                              \
  FUNCTION(copy_2d_async, cuMemcpy2DAsync)                         \
  FUNCTION(set_bytes_async, cuMemsetD8Async)                       \
  FUNCTION(pointer_attribute, cuPointerGetAttribute)               \
  FUNCTION(stream_create, cuStreamCreateWithPriority)              \
  FUNCTION(stream_priorities, cuCtxGetStreamPriorityRange)         \
  FUNCTION(stream_destroy, cuStreamDestroy)                        \
  FUNCTION(stream_query, cuStreamQuery)                            \
  FUNCTION(stream_synchronize, cuStreamSynchronize)                \
  FUNCTION(stream_wait_event, cuStreamWaitEvent)                   \
  FUNCTION(stream_is_capturing, cuStreamIsCapturing)               \
  FUNCTION(stream_begin_capture, cuStreamBeginCapture)             \
  FUNCTION(stream_end_capture, cuStreamEndCapture)                 \
  FUNCTION(event_create, cuEventCreate)                            \
  FUNCTION(event_destroy, cuEventDestroy)                          \
  FUNCTION(event_record, cuEventRecord)                            \
  FUNCTION(event_query, cuEventQuery)                              \
  FUNCTION(library_load, cuLibraryLoadData)                        \
  FUNCTION(library_unload, cuLibraryUnload)                        \
  FUNCTION(library_kernel, cuLibraryGetKernel)                     \
  FUNCTION(kernel_function, cuKernelGetFunction)                   \
  FUNCTION(function_attribute, cuFuncGetAttribute)                 \
  FUNCTION(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  FUNCTION(launch, cuLaunchKernelEx)                               \
  FUNCTION(graph_instantiate, cuGraphInstantiate)                  \
  FUNCTION(graph_set_kernel, cuGraphExecKernelNodeSetParams)       \
  FUNCTION(graph_launch, cuGraphLaunch)                            \
  FUNCTION(graph_destroy, cuGraphDestroy)                          \
  FUNCTION(graph_exec_destroy, cuGraphExecDestroy)                 \
  FUNCTION(granularity, cuMemGetAllocationGranularity)             \
  FUNCTION(physical_create, cuMemCreate)                           \
  FUNCTION(physical_release, cuMemRelease)                         \
  FUNCTION(physical_export, cuMemExportToShareableHandle)          \
  FUNCTION(physical_import, cuMemImportFromShareableHandle)        \
  FUNCTION(address_reserve, cuMemAddressReserve)                   \
  FUNCTION(address_free, cuMemAddressFree)                         \
  FUNCTION(map, cuMemMap)                                          \
  FUNCTION(unmap, cuMemUnmap)                                      \
  FUNCTION(set_access, cuMemSetAccess)

// What came with CUDA 12.1, and is null in older drivers.
#define COCONET_MULTICAST_FUNCTIONS(FUNCTION)          \
  FUNCTION(multicast_create, cuMulticastCreate)        \
  FUNCTION(multicast_add_device, cuMulticastAddDevice) \
  FUNCTION(multicast_bind, cuMulticastBindMem)         \
  FUNCTION(multicast_unbind, cuMulticastUnbind)        \
  FUNCTION(multicast_granularity, cuMulticastGetGranularity)

COCONET_FUNCTION_TABLE(DriverFunctions, COCONET_DRIVER_FUNCTIONS);
COCONET_FUNCTION_TABLE(MulticastFunctions, COCONET_MULTICAST_FUNCTIONS);

struct Driver : DriverFunctions, MulticastFunctions {
  // Newer headers have another version of these two than the drivers that this library supports.
  CUresult(CUDAAPI* event_elapsed)(float* ms, CUevent start, CUevent end) = nullptr;
  CUresult(CUDAAPI* stream_capture_info)(CUstream stream, CUstreamCaptureStatus* status,
                                         cuuint64_t* id, CUgraph* graph,
                                         const CUgraphNode** dependencies,
                                         std::size_t* count) = nullptr;

  int number = 0;                ///< 13000 for CUDA 13.0
  bool knows_multicast = false;  ///< it has all functions of multicast objects
  std::string file;              ///< that it was loaded from
  std::string unavailable;       ///< why the table is not whole, or the driver too old; or empty
  std::string no_device;         ///< why cuInit failed; empty when it did not

  [[nodiscard]] std::string version() const;                 ///< "13.0"
  [[nodiscard]] std::string name_of(CUresult result) const;  ///< "CUDA_ERROR_OUT_OF_MEMORY"
};

/// The process's driver, loaded and initialised at the first call. Does not throw.
[[nodiscard]] const Driver& loaded_driver();

/// `loaded_driver()`, or BackendError when no GPU can be used, with how to get there.
[[nodiscard]] const Driver& driver();

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
[[nodiscard]] std::string describe(CUresult result);

/// Throws BackendError "<what>: the driver reports <result>" unless `result` is success.
void check(CUresult result, std::string_view what);

/// Calls a function of the driver with `device` current.
template <class... Parameters>
CUresult call_on(const Device& device, CUresult(CUDAAPI* function)(Parameters...),
                 std::type_identity_t<Parameters>... arguments) {
  const OnDevice current(device);
  return function(arguments...);
}

}  // namespace coconet::jit
