// Multicast objects: which devices they have and what memory is bound to them, in the order that
// the driver asks for. Where it would wait for devices that are not added yet, these calls fail, as
// a test that waits says nothing. What is behind a multicast address nobody can read or write:
// kernels of the host's prelude go to each rank's own memory.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "memory.h"

namespace stub {
namespace {

constexpr const char* file_name = "stub_cuda_multicast";

std::size_t& live_teams() {
  static std::size_t count = 0;
  return count;
}

bool has_multicast() {
  return setting("STUB_CUDA_MULTICAST", 0) != 0;
}

std::uint64_t bit_of(int device) {
  return std::uint64_t{1} << static_cast<unsigned>(device);
}

std::shared_ptr<Physical> find_object(CUmemGenericAllocationHandle handle) {
  auto object = find_physical(handle);
  return object != nullptr && object->team != nullptr ? object : nullptr;
}

}  // namespace

Team::Team(int file)
    : shared_(static_cast<Shared*>(
          mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0))) {
  ++live_teams();
}

Team::~Team() {
  munmap(shared_, sizeof(Shared));
  --live_teams();
}

bool Team::is_complete() const {
  return std::popcount(shared_->added.load()) == static_cast<int>(shared_->expected);
}

bool Team::has(int device) const {
  return is_device(device) && (shared_->added.load() & bit_of(device)) != 0;
}

bool is_team_file(const std::string& name) {
  return name.starts_with(std::string("/memfd:") + file_name);
}

std::size_t live_multicasts() {
  return live_teams();
}

}  // namespace stub

using namespace stub;

CUresult cuMulticastGetGranularity(std::size_t* bytes, const CUmulticastObjectProp*,
                                   CUmulticastGranularity_flags) {
  return call("cuMulticastGetGranularity", Needs::initialisation, [&](Lock&) {
    if (!has_multicast()) return CUDA_ERROR_NOT_SUPPORTED;
    *bytes = multicast_granularity;
    note("cuMulticastGetGranularity");
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                           const CUmulticastObjectProp* properties) {
  return call("cuMulticastCreate", Needs::initialisation, [&](Lock&) {
    if (!has_multicast()) return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->numDevices == 0 || properties->numDevices > 64 || properties->size == 0 ||
        properties->size % multicast_granularity != 0 || properties->flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto object = std::make_shared<Physical>();
    object->own = false;
    object->bytes = properties->size;
    object->exportable = (properties->handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
    object->file = memfd_create(file_name, MFD_CLOEXEC);
    if (object->file == -1 || ftruncate(object->file, sizeof(Team::Shared)) != 0)
      return CUDA_ERROR_OUT_OF_MEMORY;
    object->team = std::make_shared<Team>(object->file);
    object->team->shared().expected = properties->numDevices;
    object->team->shared().bytes = properties->size;
    *handle = add_physical(object);
    note("cuMulticastCreate", details("devices=", properties->numDevices, " bytes=",
                                      properties->size, " physical=", number_of(*handle)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return call("cuMulticastAddDevice", Needs::initialisation, [&](Lock&) {
    const auto object = find_object(handle);
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (object == nullptr || object->team->has(device) || object->team->is_complete())
      return CUDA_ERROR_INVALID_VALUE;
    object->team->shared().added |= bit_of(device);
    note("cuMulticastAddDevice", details("physical=", number_of(handle), " device=", device));
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                            CUmemGenericAllocationHandle memory, std::size_t memory_offset,
                            std::size_t bytes, unsigned long long flags) {
  return call("cuMulticastBindMem", Needs::initialisation, [&](Lock&) {
    const auto object = find_object(handle);
    const auto bound = find_physical(memory);
    if (object == nullptr || bound == nullptr || bound->team != nullptr || flags != 0 ||
        bytes == 0 || (bytes | offset | memory_offset) % multicast_granularity != 0 ||
        offset + bytes > object->bytes || memory_offset + bytes > bound->bytes ||
        (object->exportable && !bound->exportable))
      return CUDA_ERROR_INVALID_VALUE;
    Team& team = *object->team;
    if (!team.is_complete()) return CUDA_ERROR_ILLEGAL_STATE;
    if (!team.has(bound->device)) return CUDA_ERROR_INVALID_DEVICE;
    if ((team.shared().bound & bit_of(bound->device)) != 0) return CUDA_ERROR_INVALID_VALUE;
    team.shared().bound |= bit_of(bound->device);
    team.memory[bound->device] = {offset, bytes, bound};
    note("cuMulticastBindMem",
         details("physical=", number_of(handle), " bytes=", bytes, " memory=", number_of(memory)));
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t offset,
                           std::size_t bytes) {
  return call("cuMulticastUnbind", Needs::initialisation, [&](Lock&) {
    const auto object = find_object(handle);
    if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto bound = object->team->memory.find(device);
    if (bound == object->team->memory.end() || bound->second.offset != offset ||
        bound->second.bytes != bytes)
      return CUDA_ERROR_INVALID_VALUE;
    object->team->memory.erase(bound);
    object->team->shared().bound &= ~bit_of(device);
    note("cuMulticastUnbind", details("physical=", number_of(handle), " device=", device));
    return CUDA_SUCCESS;
  });
}
