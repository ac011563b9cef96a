// Handles and mappings of GPU memory.
#include "jit/platform/cuda/peer_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "coconet/error.h"
#include "jit/platform/cuda/driver.h"

namespace coconet::jit {

namespace {

constexpr CUmemAllocationHandleType by_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = by_descriptor;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.ordinal();
  return properties;
}

}  // namespace

MemoryHandle::~MemoryHandle() {
  (void)driver().physical_release(handle_);
}

Descriptor MemoryHandle::descriptor() const {
  int fd = -1;
  check(driver().physical_export(&fd, handle_, by_descriptor, 0),
        "exporting memory to other ranks");
  return Descriptor(fd);
}

std::unique_ptr<const MemoryHandle> allocate_physical(const Device& device, std::size_t bytes) {
  const CUmemAllocationProp properties = properties_of(device);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver().physical_create(&handle, bytes, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free = 0;
    std::size_t total = 0;
    check(driver().memory_info(&free, &total), "asking how much memory is free");
    throw BackendError(
        fmt::format("{} has no room for {} MiB of tensors that other ranks reach: {} MiB of its {} "
                    "MiB are free; "
                    "make the tensors smaller",
                    device.name(), bytes >> 20, free >> 20, total >> 20));
  }
  check(result, fmt::format("allocating {} bytes on {}", bytes, device.name()));
  return std::make_unique<const MemoryHandle>(handle);
}

std::unique_ptr<const MemoryHandle> import_memory(int descriptor) {
  void* const exported = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  CUmemGenericAllocationHandle handle = 0;
  check(driver().physical_import(&handle, exported, by_descriptor),
        "importing memory of another rank's GPU");
  return std::make_unique<const MemoryHandle>(handle);
}

std::size_t granularity_of(const Device& device) {
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of memory on " + device.name());
  return granularity;
}

std::size_t greatest_of_all(Comm& comm, std::size_t mine) {
  for (const std::string& other : comm.all_gather(std::to_string(mine)))
    mine = std::max<std::size_t>(mine, std::stoull(other));
  return mine;
}

Mapped::Mapped(const MemoryHandle& memory, std::size_t bytes, const std::vector<int>& devices)
    : bytes_(bytes) {
  const Driver& cuda = driver();
  check(cuda.address_reserve(&address_, bytes_, 0, 0, 0), "reserving addresses of a GPU");
  CUresult result = cuda.map(address_, bytes_, 0, memory.get(), 0);
  mapped_ = result == CUDA_SUCCESS;
  if (mapped_) {
    std::vector<CUmemAccessDesc> access;
    for (const int device : devices) {
      CUmemAccessDesc one{};
      one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      one.location.id = device;
      one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      access.push_back(one);
    }
    result = cuda.set_access(address_, bytes_, access.data(), access.size());
  }
  if (result == CUDA_SUCCESS) return;
  release();
  check(result, "mapping memory of a GPU for the kernels of other ranks");
}

void Mapped::release() {
  if (mapped_) (void)driver().unmap(address_, bytes_);
  (void)driver().address_free(address_, bytes_);
}

}  // namespace coconet::jit
