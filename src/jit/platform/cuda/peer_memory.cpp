// Peer memory on GPUs: physical memory that each process maps. A mapping keeps the physical memory,
// so that ranks may end in any order.
#include "jit/platform/cuda/peer_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "coconet/error.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::jit {

namespace {

/// All ranks' blocks as one process addresses them.
using Blocks = std::vector<std::shared_ptr<std::byte>>;

/// What a rank holds of a collective allocation.
struct Shared {
  std::shared_ptr<const Blocks> blocks;
  std::shared_ptr<std::byte> multicast;  ///< null where `problem` says why
  std::string problem;
};

/// Frees what a rank holds of an allocation while its GPU is current.
struct Owner {
  const Device& device;
  Shared shared;
  ~Owner() {
    const OnDevice current(device);
    shared.multicast.reset();  // which is bound to memory of the blocks
    shared.blocks.reset();
  }
};

CUmemAllocationProp properties_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.ordinal;
  return properties;
}

/// Bytes that physical memory of `device` comes in.
std::size_t granularity_of(const Device& device) {
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of memory on " + device.name);
  return granularity;
}

/// `bytes` of physical memory, a multiple of `granularity_of`.
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
                    "MiB are free; make the tensors smaller",
                    device.name, bytes >> 20, free >> 20, total >> 20));
  }
  check(result, fmt::format("allocating {} bytes on {}", bytes, device.name));
  return std::make_unique<const MemoryHandle>(handle);
}

/// Throws on every rank when kernels on one rank's GPU cannot reach the memory of another's.
void require_reachable(Comm& comm, const Device& device, const std::vector<std::string>& uuids) {
  together(comm, [&] {
    for (int rank = 0; rank < comm.size(); ++rank) {
      const int peer = Device::find(uuids[rank]);
      if (peer < 0 || peer == device.ordinal) continue;  // unseen GPUs show when they are mapped
      int can = 0;
      check(driver().device_can_access_peer(&can, device.ordinal, peer),
            "asking whether GPUs reach each other");
      if (can != 0) continue;
      throw CommError(fmt::format(
          "rank {}'s GPU ({}) cannot reach the memory of rank {}'s ({}), which fused kernels need: "
          "'nvidia-smi topo -p2p rw' shows the pairs; use the schedule 'unfused', or GPUs that are "
          "connected",
          comm.number_of(comm.rank()), device.name, comm.number_of(rank), Device::name_of(peer)));
    }
  });
}

/// Collective: the GPUs whose kernels use this process's addresses.
std::vector<int> devices_of(Comm& comm, const Device& device) {
  if (!comm.in_one_process()) return {device.ordinal};
  std::set<int> devices;
  for (const std::string& ordinal : comm.all_gather(std::to_string(device.ordinal)))
    devices.insert(std::stoi(ordinal));
  return {devices.begin(), devices.end()};
}

/// Maps the blocks of the other processes, which hand over descriptors.
void import_blocks(Comm& comm, const OpenFile& own, std::size_t size,
                   const std::vector<int>& devices, Blocks& blocks) {
  const std::vector<OpenFile> descriptors = exchange_descriptors(comm, own.number());
  together(comm, [&] {
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank != comm.rank()) blocks[rank] = import_memory(descriptors[rank])->map(size, devices);
    }
  });
}

/// An address for all of `physical`, which is cleared, for kernels on `devices`.
std::shared_ptr<std::byte> map_cleared(const MemoryHandle& physical, std::size_t size,
                                       const std::vector<int>& devices) {
  std::shared_ptr<std::byte> block = physical.map(size, devices);
  CUresult cleared =
      driver().set_bytes_async(reinterpret_cast<CUdeviceptr>(block.get()), 0, size, nullptr);
  if (cleared == CUDA_SUCCESS) cleared = driver().stream_synchronize(nullptr);
  check(cleared, "clearing memory of a GPU");
  return block;
}

std::size_t rounded_up(std::size_t bytes, std::size_t granularity) {
  return (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
}

/// A block of `size` on every rank: threads use each other's addresses, processes map each other's
/// memory. `problem` says why no multicast pointer is made; empty: one is.
Shared share_blocks(Comm& comm, const Device& device, std::size_t size, std::string problem) {
  const bool imports = !comm.in_one_process() && comm.size() > 1;
  const std::vector<int> devices = devices_of(comm, device);
  auto blocks = std::make_shared<Blocks>(comm.size());
  if (comm.in_one_process()) blocks = std::static_pointer_cast<Blocks>(comm.share(blocks));
  OpenFile exported;
  std::unique_ptr<const MemoryHandle> physical;
  together(comm, [&] {
    physical = allocate_physical(device, size);
    (*blocks)[comm.rank()] = map_cleared(*physical, size, devices);
    if (imports) exported = physical->descriptor();
  });
  if (imports) import_blocks(comm, exported, size, devices, *blocks);
  std::shared_ptr<std::byte> multicast;
  if (problem.empty()) multicast = make_multicast(comm, device, *physical, size, devices, problem);
  return {std::move(blocks), std::move(multicast), std::move(problem)};
}

std::shared_ptr<PeerMemory> allocate_in_node(Comm& comm, std::size_t bytes, bool multicast) {
  agree_on_bytes(comm, bytes);
  const Device* device = nullptr;
  std::size_t granularity = 0;
  together(comm, [&] {
    device = &device_of(comm);
    const OnDevice current(*device);
    if (!device->shares_memory) {
      throw BackendError(device->name +
                         " cannot share memory by file descriptors, which fused kernels of several "
                         "ranks need; use the schedule 'unfused'");
    }
    granularity = granularity_of(*device);
  });
  const OnDevice current(*device);
  const std::vector<std::string> uuids = comm.all_gather(device->uuid);
  require_reachable(comm, *device, uuids);
  MulticastSupport support{"it was not asked for"};
  if (multicast && comm.size() == 1) support.problem = "there is one rank";
  if (multicast && comm.size() > 1) support = multicast_support(comm, *device, uuids);
  granularity = greatest_of_all(comm, std::max(granularity, support.granularity));
  const std::size_t size = rounded_up(bytes, granularity);
  const std::shared_ptr<const Owner> owner(
      new Owner{*device, share_blocks(comm, *device, size, std::move(support.problem))});
  const auto& [blocks, pointer, problem] = owner->shared;
  Indexed<std::byte*> addresses;
  for (const auto& block : *blocks) addresses.push_back(block.get());
  return std::make_shared<PeerMemory>(std::move(addresses), comm.rank(), bytes, owner,
                                      pointer.get(), problem);
}

}  // namespace

OpenFile MemoryHandle::descriptor() const {
  int fd = -1;
  check(driver().physical_export(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "exporting memory to other ranks");
  return OpenFile(fd);
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

std::unique_ptr<const MemoryHandle> import_memory(const OpenFile& descriptor) {
  void* const exported = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.number()));
  CUmemGenericAllocationHandle handle = 0;
  check(driver().physical_import(&handle, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "importing memory of another rank's GPU");
  return std::make_unique<const MemoryHandle>(handle);
}

std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes, bool multicast) {
  if (&comm.node() == &comm) return allocate_in_node(comm, bytes, multicast);
  return allocate_in_nodes(comm, bytes,
                           [&](Comm& node) { return allocate_in_node(node, bytes, multicast); });
}

Window allocate_window_on_device(Comm& comm, const Device& device, std::size_t bytes, bool wanted) {
  if (greatest_of_all(comm, wanted ? 0 : 1) > 0) return {};
  Window window{nullptr, greatest_of_all(comm, bytes)};
  together(comm, [&] {
    const OnDevice current(device);
    const std::size_t size = rounded_up(window.bytes, granularity_of(device));
    std::shared_ptr<std::byte> block =
        map_cleared(*allocate_physical(device, size), size, {device.ordinal});
    std::byte* const data = block.get();
    window.memory = std::make_shared<Memory>(data, [&device, block = std::move(block)]() mutable {
      const OnDevice current_again(device);
      block.reset();
    });
  });
  return window;
}

void require_nvlink(Comm& comm, std::span<const int> group, std::string_view kernel) {
  std::string identity;
  together(comm, [&] { identity = device_of(comm).uuid; });
  const std::vector<std::string> uuids = comm.all_gather(identity);
  together(comm, [&] {
    const Device& device = device_of(comm);
    for (const int rank : group) {
      const int peer = Device::find(uuids[rank]);
      if (peer == device.ordinal) continue;
      // Native atomics tell NVLink from PCIe.
      int native_atomics = 0;
      if (peer >= 0) {
        check(driver().device_peer_attribute(&native_atomics,
                                             CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                             device.ordinal, peer),
              "asking what connects GPUs");
      }
      if (native_atomics != 0) continue;
      const std::string why =
          peer >= 0 ? Device::name_of(peer) + ") are connected otherwise"
                    : "hidden from this process, as by CUDA_VISIBLE_DEVICES) may not have it";
      throw BackendError(fmt::format(
          "kernel '{}' has the protocol ll128, which needs NVLink between GPUs, but rank {}'s ({}) "
          "and rank {}'s ({}; use the protocol ll or simple",
          kernel, comm.rank(), device.name, rank, why));
    }
  });
}

}  // namespace coconet::jit
