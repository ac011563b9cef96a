// The area of device addresses, allocations in it, pinned host memory, and what can be asked of a
// pointer.
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "control.h"
#include "streams.h"

namespace stub {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::size_t area_bytes = std::size_t{1} << 38;  // the sanitizer leaves less room
#else
constexpr std::size_t area_bytes = std::size_t{1} << 40;
#endif
constexpr std::size_t page_bytes = 4096;

// What new memory is full of, as far as filling it is cheap: as floats of any width it is NaN.
constexpr int poison = 0xff;
constexpr std::size_t most_poison = std::size_t{16} << 20;

char* map_nothing(std::size_t bytes) {
  void* const at =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// An alias ends in a page that nobody may touch.
std::size_t alias_bytes(std::size_t bytes) {
  return rounded_up(bytes, page_bytes) + page_bytes;
}

CUresult check_mappings(const Range& range, std::size_t offset, std::size_t bytes, int device) {
  while (bytes > 0) {
    const auto at =
        std::find_if(range.mappings.begin(), range.mappings.end(), [&](const Mapping& mapping) {
          return offset >= mapping.offset && offset - mapping.offset < mapping.bytes;
        });
    if (at == range.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    if (at->access.find(device) == at->access.end()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const std::size_t covered = std::min(bytes, at->offset + at->bytes - offset);
    offset += covered;
    bytes -= covered;
  }
  return CUDA_SUCCESS;
}

Place resolve_device(std::uint64_t address, std::size_t bytes, int device, Use use, bool late) {
  Place place{.where = Where::device, .problem = CUDA_ERROR_INVALID_VALUE};
  const Range* const range = memory().find(address);
  if (range == nullptr || (range->freed && !late)) return place;
  const std::size_t offset = address - range->base;
  if (bytes > range->bytes - offset) return place;
  place.device = range->device;
  place.problem = CUDA_SUCCESS;
  if (range->reserved) {
    place.problem = check_mappings(*range, offset, std::max<std::size_t>(bytes, 1), device);
  } else if (use == Use::kernel && range->device != device) {
    place.problem = CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (place.problem == CUDA_SUCCESS) place.at = range->alias + offset;
  return place;
}

// The pinned area that `address` is inside of.
auto find_pinned(std::uint64_t address) {
  const auto& areas = memory().pinned;
  auto after = areas.upper_bound(address);
  if (after == areas.begin()) return areas.end();
  --after;
  return address - after->first < after->second.bytes ? after : areas.end();
}

}  // namespace

Memory::Memory() : begin_(address_of(map_nothing(area_bytes))), next_(begin_) {}

bool Memory::contains(std::uint64_t address) const {
  return address >= begin_ && address - begin_ < area_bytes;
}

std::uint64_t Memory::free_place(std::size_t bytes, std::size_t alignment) const {
  const auto fits_from = [&](std::uint64_t from) -> std::uint64_t {
    std::uint64_t at = rounded_up(from, alignment);
    for (auto next = ranges_.lower_bound(from); next != ranges_.end(); ++next) {
      if (at + bytes <= next->first) break;
      at = rounded_up(next->first + alias_bytes(next->second.bytes), alignment);
    }
    return at + bytes <= begin_ + area_bytes ? at : 0;
  };
  const std::uint64_t at = fits_from(next_);
  return at != 0 ? at : fits_from(begin_);
}

Range* Memory::add(std::size_t bytes, std::size_t alignment, bool usable) {
  if (bytes >= area_bytes) return nullptr;
  const std::uint64_t base = free_place(alias_bytes(bytes), alignment);
  char* const alias = base == 0 ? nullptr : map_nothing(alias_bytes(bytes));
  if (alias == nullptr) return nullptr;
  if (usable) {
    if (mprotect(alias, rounded_up(bytes, page_bytes), PROT_READ | PROT_WRITE) != 0) {
      munmap(alias, alias_bytes(bytes));
      return nullptr;
    }
    std::memset(alias, poison, std::min(bytes, most_poison));
  }
  next_ = base + alias_bytes(bytes);
  Range& range = ranges_[base];
  range.base = base;
  range.bytes = bytes;
  range.alias = alias;
  return &range;
}

void Memory::remove(std::uint64_t base) {
  const auto at = ranges_.find(base);
  munmap(at->second.alias, alias_bytes(at->second.bytes));
  ranges_.erase(at);
}

Range* Memory::find(std::uint64_t address) {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  Range& range = std::prev(after)->second;
  return address - range.base < range.bytes ? &range : nullptr;
}

std::size_t Memory::reserved_count() const {
  return static_cast<std::size_t>(std::count_if(
      ranges_.begin(), ranges_.end(), [](const auto& row) { return row.second.reserved; }));
}

Place resolve(std::uint64_t address, std::size_t bytes, int device, Use use, bool late) {
  if (memory().contains(address)) return resolve_device(address, bytes, device, use, late);
  Place place{.at = reinterpret_cast<char*>(address)};
  if (const auto area = find_pinned(address); area != memory().pinned.end()) {
    place.where = Where::pinned;
    place.device = area->second.device;
    if (bytes > area->second.bytes - (address - area->first))
      place.problem = CUDA_ERROR_INVALID_VALUE;
  } else if (address == 0 && bytes > 0) {
    place.problem = CUDA_ERROR_INVALID_VALUE;
  }
  return place;
}

}  // namespace stub

using namespace stub;

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream handle) {
  return call_on(handle, "cuMemAllocAsync", Needs::context, [&](Lock&, auto& stream) {
    if (forbid_in_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!take_memory(stream->device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    Range* const range = memory().add(bytes, page_bytes, true);
    if (range == nullptr) {
      give_memory(stream->device, bytes);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->device = stream->device;
    *address = range->base;
    note("cuMemAllocAsync", details("bytes=", bytes, " stream=", number_of(handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return call_on(handle, "cuMemFreeAsync", Needs::context, [&](Lock&, auto& stream) {
    if (forbid_in_capture(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    Range* const range = memory().find(address);
    if (range == nullptr || range->base != address || range->reserved || range->freed)
      return CUDA_ERROR_INVALID_VALUE;
    range->freed = true;
    // An allocation that comes later in the stream's order may already count on these bytes.
    give_memory(range->device, range->bytes);
    note("cuMemFreeAsync", details("bytes=", range->bytes, " stream=", number_of(handle)));
    enqueue(*stream, [address] {
      const Lock lock(mutex());
      memory().remove(address);
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  return call("cuMemHostAlloc", Needs::context, [&](Lock&) {
    if (forbid_in_captures_of_thread()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    char* const at = map_nothing(alias_bytes(bytes));
    if (at == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    if (mprotect(at, rounded_up(bytes, page_bytes), PROT_READ | PROT_WRITE) != 0) {
      munmap(at, alias_bytes(bytes));
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory().pinned[address_of(at)] = {.bytes = bytes, .device = current_device()};
    *address = at;
    note("cuMemHostAlloc", details("bytes=", bytes));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void* address) {
  return call("cuMemFreeHost", Needs::context, [&](Lock& lock) {
    const auto at = memory().pinned.find(address_of(address));
    if (at == memory().pinned.end()) return CUDA_ERROR_INVALID_VALUE;
    // The real driver waits for the device here; nothing should count on it, but nothing dies of it
    // either.
    wait_for_device(lock, at->second.device);
    const std::size_t bytes = memory().pinned[address_of(address)].bytes;
    munmap(address, alias_bytes(bytes));
    memory().pinned.erase(address_of(address));
    note("cuMemFreeHost", details("bytes=", bytes));
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return ask("cuPointerGetAttribute", Needs::initialisation, [&](Lock&) {
    Place place = resolve(address, 1, -1, Use::copy, false);
    if (place.problem == CUDA_ERROR_ILLEGAL_ADDRESS) place.problem = CUDA_SUCCESS;
    if (place.problem != CUDA_SUCCESS || place.where == Where::pageable)
      return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
      *static_cast<unsigned*>(data) =
          place.where == Where::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      *static_cast<int*>(data) = place.device;
    } else {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
  });
}

void* stub_cuda_alias(const void* address, unsigned long long bytes, int device) {
  const Lock lock(mutex());
  const Place place = resolve(address_of(address), bytes, device, Use::kernel, true);
  return place.problem != CUDA_SUCCESS || place.where == Where::pageable ? nullptr : place.at;
}
