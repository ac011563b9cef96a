// Virtual memory management: physical memory that is a file in memory, reserved addresses, and
// mappings between them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "counts.h"
#include "memory.h"

namespace stub {
namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

PhysicalTable& physicals() {
  return immortal<PhysicalTable>();
}

bool is_whole(std::size_t bytes) {
  return bytes > 0 && bytes % granularity == 0;
}

bool has_virtual_memory() {
  return setting("STUB_CUDA_VMM", 1) != 0;
}

// An exported file carries its device in its name, which is how the importing process learns it; -1
// for other files.
int device_of_file(const std::string& name) {
  int device = -1;
  return std::sscanf(name.c_str(), "/memfd:stub_cuda_%d", &device) == 1 ? device : -1;
}

std::string name_of_file(int file) {
  std::array<char, 64> link{};
  std::array<char, 128> name{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return readlink(link.data(), name.data(), name.size() - 1) < 0 ? "" : name.data();
}

// The pages of a part of a range's alias: a mapping's, or none.
bool set_pages(const Range& range, std::size_t offset, std::size_t bytes, const Physical* physical,
               std::size_t physical_offset) {
  void* const at = range.alias + offset;
  void* const got = physical == nullptr
                        ? mmap(at, bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)
                        : mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                               physical->file, static_cast<off_t>(physical_offset));
  return got != MAP_FAILED;
}

// The reserved range that holds all of [address, address + bytes); null without one.
Range* reserved_around(CUdeviceptr address, std::size_t bytes) {
  Range* const range = memory().contains(address) ? memory().find(address) : nullptr;
  if (range == nullptr || !range->reserved) return nullptr;
  return bytes <= range->bytes - (address - range->base) ? range : nullptr;
}

// The mappings inside [offset, offset + bytes), if they fill it and none is cut; empty otherwise.
std::vector<Mapping*> mappings_that_fill(Range& range, std::size_t offset, std::size_t bytes) {
  std::vector<Mapping*> inside;
  std::size_t filled = 0;
  for (Mapping& mapping : range.mappings) {
    if (mapping.offset < offset || mapping.offset + mapping.bytes > offset + bytes) continue;
    inside.push_back(&mapping);
    filled += mapping.bytes;
  }
  if (filled != bytes) inside.clear();
  return inside;
}

}  // namespace

Physical::~Physical() {
  if (file != -1) close(file);
  if (own && bytes > 0) give_memory(device, bytes);
}

std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle) {
  return physicals().find(handle);
}

CUmemGenericAllocationHandle add_physical(std::shared_ptr<Physical> physical) {
  return physicals().add(std::move(physical));
}

std::size_t live_physicals() {
  return physicals().size();
}

}  // namespace stub

using namespace stub;

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  return ask("cuMemGetAllocationGranularity", Needs::initialisation, [&](Lock&) {
    *bytes = granularity;
    return has_virtual_memory() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  return call("cuMemCreate", Needs::initialisation, [&](Lock&) {
    if (!has_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
    const int device = properties->location.id;
    if (!is_whole(bytes) || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (lost(device) != CUDA_SUCCESS) return lost(device);
    if (!take_memory(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto physical = std::make_shared<Physical>();
    physical->bytes = bytes;
    physical->device = device;
    physical->exportable =
        (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
    physical->file = memfd_create(("stub_cuda_" + std::to_string(device)).c_str(), MFD_CLOEXEC);
    if (physical->file == -1 || ftruncate(physical->file, static_cast<off_t>(bytes)) != 0)
      return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = physicals().add(physical);
    note("cuMemCreate",
         details("bytes=", bytes, " device=", device, " physical=", number_of(*handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", Needs::initialisation, [&](Lock&) {
    if (physicals().find(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    physicals().remove(handle);
    note("cuMemRelease", details("physical=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  return call("cuMemExportToShareableHandle", Needs::initialisation, [&](Lock&) {
    const auto physical = physicals().find(handle);
    if (physical == nullptr || !physical->exportable ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    const int file = fcntl(physical->file, F_DUPFD_CLOEXEC, 0);
    if (file == -1) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(shareable) = file;
    note("cuMemExportToShareableHandle", details("physical=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  return call("cuMemImportFromShareableHandle", Needs::initialisation, [&](Lock&) {
    // The descriptor itself travels in the pointer.
    const int theirs = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    const std::string name = name_of_file(theirs);
    const bool is_team = is_team_file(name);
    const int device = is_team ? 0 : device_of_file(name);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || device < 0)
      return CUDA_ERROR_INVALID_VALUE;
    struct stat status {};
    const auto physical = std::make_shared<Physical>();
    physical->own = false;
    physical->device = device;
    physical->exportable = true;
    physical->file = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    if (physical->file == -1 || fstat(physical->file, &status) != 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
    physical->bytes = static_cast<std::size_t>(status.st_size);
    if (is_team) {
      physical->team = std::make_shared<Team>(physical->file);
      physical->bytes = physical->team->shared().bytes;
    }
    *handle = physicals().add(physical);
    note("cuMemImportFromShareableHandle",
         details("bytes=", physical->bytes, " device=", device, " physical=", number_of(*handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr, unsigned long long) {
  return call("cuMemAddressReserve", Needs::initialisation, [&](Lock&) {
    if (!has_virtual_memory()) return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_whole(bytes) || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    Range* const range = memory().add(bytes, std::max(alignment, granularity), false);
    if (range == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    range->reserved = true;
    *address = range->base;
    note("cuMemAddressReserve", details("bytes=", bytes));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return call("cuMemAddressFree", Needs::initialisation, [&](Lock&) {
    Range* const range = reserved_around(address, bytes);
    if (range == nullptr || range->base != address || range->bytes != bytes ||
        !range->mappings.empty())
      return CUDA_ERROR_INVALID_VALUE;
    memory().remove(address);
    note("cuMemAddressFree", details("bytes=", bytes));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  return call("cuMemMap", Needs::initialisation, [&](Lock&) {
    const auto physical = physicals().find(handle);
    Range* const range = reserved_around(address, bytes);
    if (physical == nullptr || range == nullptr || !is_whole(bytes) || offset % granularity != 0 ||
        address % granularity != 0 || offset > physical->bytes || bytes > physical->bytes - offset)
      return CUDA_ERROR_INVALID_VALUE;
    const std::size_t at = address - range->base;
    const bool taken =
        std::any_of(range->mappings.begin(), range->mappings.end(), [&](const Mapping& mapping) {
          return mapping.offset < at + bytes && at < mapping.offset + mapping.bytes;
        });
    if (taken) return CUDA_ERROR_INVALID_VALUE;
    if (physical->team != nullptr && !physical->team->is_complete())
      return CUDA_ERROR_ILLEGAL_STATE;
    if (physical->team == nullptr && !set_pages(*range, at, bytes, physical.get(), offset))
      return CUDA_ERROR_OUT_OF_MEMORY;
    range->mappings.push_back({.offset = at, .bytes = bytes, .physical = physical, .access = {}});
    range->device = physical->device;
    note("cuMemMap", details("bytes=", bytes, " physical=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return call("cuMemUnmap", Needs::initialisation, [&](Lock&) {
    Range* const range = reserved_around(address, bytes);
    if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t at = address - range->base;
    if (mappings_that_fill(*range, at, bytes).empty()) return CUDA_ERROR_INVALID_VALUE;
    if (!set_pages(*range, at, bytes, nullptr, 0)) return CUDA_ERROR_OPERATING_SYSTEM;
    std::erase_if(range->mappings, [&](const Mapping& mapping) {
      return mapping.offset >= at && mapping.offset < at + bytes;
    });
    note("cuMemUnmap", details("bytes=", bytes));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* accesses,
                        std::size_t count) {
  return call("cuMemSetAccess", Needs::initialisation, [&](Lock&) {
    Range* const range = reserved_around(address, bytes);
    if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto mappings = mappings_that_fill(*range, address - range->base, bytes);
    if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      const int device = accesses[i].location.id;
      if (accesses[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
      for (Mapping* mapping : mappings) {
        const Physical& physical = *mapping->physical;
        const bool can = physical.team != nullptr
                             ? physical.team->has(device)
                             : device == physical.device || peers_have_access();
        if (!can) return CUDA_ERROR_INVALID_DEVICE;
        if (accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
          mapping->access.erase(device);
        } else {
          mapping->access[device] = true;
        }
      }
    }
    note("cuMemSetAccess", details("bytes=", bytes, " devices=", count));
    return CUDA_SUCCESS;
  });
}
