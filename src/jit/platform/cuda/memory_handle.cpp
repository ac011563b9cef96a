// Handles of GPU memory, and addresses that they are mapped at.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "jit/platform/cuda/peer_memory.h"

namespace coconet::jit {

Descriptor MemoryHandle::descriptor() const {
  int fd = -1;
  check(driver().physical_export(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "exporting memory to other ranks");
  return Descriptor(fd);
}

std::shared_ptr<std::byte> MemoryHandle::map(std::size_t bytes,
                                             const std::vector<int>& devices) const {
  const Driver& cuda = driver();
  CUdeviceptr address = 0;
  check(cuda.address_reserve(&address, bytes, 0, 0, 0), "reserving addresses of a GPU");
  CUresult result = cuda.map(address, bytes, 0, handle_, 0);
  const bool mapped = result == CUDA_SUCCESS;
  std::shared_ptr<std::byte> data(reinterpret_cast<std::byte*>(address), [=](std::byte*) {
    if (mapped) (void)driver().unmap(address, bytes);
    (void)driver().address_free(address, bytes);
  });
  std::vector<CUmemAccessDesc> access;
  for (const int device : devices) {
    CUmemAccessDesc one{};
    one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    one.location.id = device;
    one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access.push_back(one);
  }
  if (mapped) result = cuda.set_access(address, bytes, access.data(), access.size());
  check(result, "mapping memory of a GPU for the kernels of other ranks");
  return data;
}

std::unique_ptr<const MemoryHandle> import_memory(const Descriptor& descriptor) {
  void* const exported = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  CUmemGenericAllocationHandle handle = 0;
  check(driver().physical_import(&handle, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "importing memory of another rank's GPU");
  return std::make_unique<const MemoryHandle>(handle);
}

std::size_t greatest_of_all(Comm& comm, std::size_t mine) {
  for (const std::string& other : comm.all_gather(std::to_string(mine)))
    mine = std::max<std::size_t>(mine, std::stoull(other));
  return mine;
}

}  // namespace coconet::jit
