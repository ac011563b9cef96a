// Peer memory on GPUs by CUDA's virtual memory management: physical memory with a handle, mapped at addresses of each
// process. A mapping keeps the physical memory, so that ranks may end in any order.
#include "jit/comm/cuda_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "coconet/error.h"
#include "jit/comm/descriptors.h"
#include "jit/comm/peer_memory.h"
#include "jit/cuda/device.h"
#include "jit/cuda/driver.h"

namespace coconet::jit {

namespace {

constexpr CUmemAllocationHandleType by_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = by_descriptor;
  properties.location = {};
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.ordinal();
  return properties;
}

/// Physical memory of a GPU, made here or imported.
class Physical {
 public:
  Physical(const Device& device, std::size_t bytes) {
    const CUmemAllocationProp properties = properties_of(device);
    const CUresult result = driver().physical_create(&handle_, bytes, &properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      std::size_t free = 0;
      std::size_t total = 0;
      check(driver().memory_info(&free, &total), "asking how much memory is free");
      throw BackendError(device.name() + " has no room for " + std::to_string(bytes >> 20) +
                         " MiB of tensors that other ranks reach: " + std::to_string(free >> 20) +
                         " MiB of its " + std::to_string(total >> 20) +
                         " MiB are free; make the tensors smaller");
    }
    check(result, "allocating " + std::to_string(bytes) + " bytes on " + device.name());
  }
  /// What another process exported as `descriptor`.
  explicit Physical(int descriptor) {
    void* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
    check(driver().physical_import(&handle_, handle, by_descriptor),
          "importing memory of another rank's GPU");
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() { (void)driver().physical_release(handle_); }

  [[nodiscard]] CUmemGenericAllocationHandle handle() const { return handle_; }
  [[nodiscard]] Descriptor descriptor() const {
    int fd = -1;
    check(driver().physical_export(&fd, handle_, by_descriptor, 0),
          "exporting memory to other ranks");
    return Descriptor(fd);
  }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

/// Physical memory at addresses of this process that kernels on `devices` may use.
class Mapped {
 public:
  Mapped(const Physical& physical, std::size_t bytes, const std::vector<int>& devices)
      : bytes_(bytes) {
    const Driver& cuda = driver();
    check(cuda.address_reserve(&address_, bytes_, 0, 0, 0), "reserving addresses of a GPU");
    CUresult result = cuda.map(address_, bytes_, 0, physical.handle(), 0);
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
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { release(); }

  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  void release() {
    if (mapped_) (void)driver().unmap(address_, bytes_);
    (void)driver().address_free(address_, bytes_);
  }
  CUdeviceptr address_ = 0;
  std::size_t bytes_;
  bool mapped_ = false;
};

/// All ranks' blocks as one process addresses them. The physical handles may go once the memory is mapped.
using Blocks = std::vector<std::unique_ptr<const Mapped>>;

class DevicePeerMemory final : public PeerMemory {
 public:
  DevicePeerMemory(const Device& device, std::shared_ptr<const Blocks> blocks, int rank,
                   std::size_t bytes)
      : device_(device), blocks_(std::move(blocks)), rank_(rank), bytes_(bytes) {}
  DevicePeerMemory(const DevicePeerMemory&) = delete;
  DevicePeerMemory& operator=(const DevicePeerMemory&) = delete;
  ~DevicePeerMemory() override {
    const OnDevice current(device_);
    blocks_.reset();
  }
  [[nodiscard]] std::byte* base(int rank) const override {
    return (*blocks_)[static_cast<std::size_t>(rank)]->data();
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(blocks_->size()); }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  const Device& device_;
  std::shared_ptr<const Blocks> blocks_;
  int rank_;
  std::size_t bytes_;
};

std::size_t granularity_of(const Device& device) {
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of memory on " + device.name());
  return granularity;
}

void clear(const Mapped& block, std::size_t bytes) {
  const auto address = reinterpret_cast<CUdeviceptr>(block.data());
  check(driver().set_bytes_async(address, 0, bytes, nullptr), "clearing memory of a GPU");
  check(driver().stream_synchronize(nullptr), "clearing memory of a GPU");
}

/// The GPU of this process with the identity `uuid`, or -1.
int ordinal_of(const std::string& uuid) {
  for (int ordinal = 0; ordinal < Device::count(); ++ordinal) {
    if (Device::at(ordinal).uuid() == uuid) return ordinal;
  }
  return -1;
}

/// Throws on every rank when kernels on one rank's GPU cannot reach the memory of another's.
void require_reachable(Comm& comm, const Device& device, const std::vector<std::string>& uuids) {
  together(comm, [&] {
    for (int rank = 0; rank < comm.size(); ++rank) {
      const int peer = ordinal_of(uuids[static_cast<std::size_t>(rank)]);
      if (peer < 0 || peer == device.ordinal()) continue;  // unseen GPUs show when they are mapped
      int can = 0;
      check(driver().device_can_access_peer(&can, device.ordinal(), peer),
            "asking whether GPUs reach each other");
      if (can != 0) continue;
      throw CommError("rank " + std::to_string(comm.rank()) + "'s GPU (" + device.name() +
                      ") cannot reach the memory of rank " + std::to_string(rank) + "'s (" +
                      Device::at(peer).name() +
                      "), which fused kernels need: 'nvidia-smi topo -p2p rw' shows the pairs; use "
                      "the schedule 'unfused', or GPUs that are connected");
    }
  });
}

std::shared_ptr<const Blocks> share_between_threads(Comm& comm, const Device& device,
                                                    std::size_t size) {
  std::vector<int> devices;
  for (const std::string& ordinal : comm.all_gather(std::to_string(device.ordinal()))) {
    const int number = std::stoi(ordinal);
    if (std::find(devices.begin(), devices.end(), number) == devices.end())
      devices.push_back(number);
  }
  auto blocks = std::static_pointer_cast<Blocks>(
      comm.share(std::make_shared<Blocks>(static_cast<std::size_t>(comm.size()))));
  together(comm, [&] {
    const Physical physical(device, size);
    auto block = std::make_unique<const Mapped>(physical, size, devices);
    clear(*block, size);
    (*blocks)[static_cast<std::size_t>(comm.rank())] = std::move(block);
  });
  return blocks;
}

std::shared_ptr<const Blocks> share_between_processes(Comm& comm, const Device& device,
                                                      std::size_t size) {
  auto blocks = std::make_shared<Blocks>(static_cast<std::size_t>(comm.size()));
  const std::vector<int> here{device.ordinal()};
  Descriptor exported;
  together(comm, [&] {
    const Physical physical(device, size);
    auto block = std::make_unique<const Mapped>(physical, size, here);
    clear(*block, size);
    if (comm.size() > 1) exported = physical.descriptor();
    (*blocks)[static_cast<std::size_t>(comm.rank())] = std::move(block);
  });
  if (comm.size() == 1) return blocks;
  const std::vector<Descriptor> descriptors = exchange_descriptors(comm, exported.get());
  together(comm, [&] {
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank == comm.rank()) continue;
      const Physical physical(descriptors[static_cast<std::size_t>(rank)].get());
      (*blocks)[static_cast<std::size_t>(rank)] =
          std::make_unique<const Mapped>(physical, size, here);
    }
  });
  return blocks;
}

}  // namespace

std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes) {
  agree_on_bytes(bytes, [&](std::string_view mine) { return comm.all_gather(mine); });
  const Device* device = nullptr;
  std::size_t granularity = 0;
  together(comm, [&] {
    device = &comm.device();
    const OnDevice current(*device);
    if (!device->shares_memory()) {
      throw BackendError(device->name() +
                         " cannot share memory by file descriptors, which fused kernels of several "
                         "ranks need; use the schedule 'unfused'");
    }
    granularity = granularity_of(*device);
  });
  const OnDevice current(*device);
  require_reachable(comm, *device, comm.all_gather(device->uuid()));
  for (const std::string& other : comm.all_gather(std::to_string(granularity)))
    granularity = std::max<std::size_t>(granularity, std::stoull(other));
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
  auto blocks = comm.in_one_process() ? share_between_threads(comm, *device, size)
                                      : share_between_processes(comm, *device, size);
  return std::make_shared<DevicePeerMemory>(*device, std::move(blocks), comm.rank(), bytes);
}

void require_nvlink(Comm& comm, std::span<const int> group, std::string_view kernel) {
  std::string identity;
  together(comm, [&] { identity = comm.device().uuid(); });
  const std::vector<std::string> uuids = comm.all_gather(identity);
  together(comm, [&] {
    const Device& device = comm.device();
    for (const int rank : group) {
      const int peer = ordinal_of(uuids[static_cast<std::size_t>(rank)]);
      if (peer == device.ordinal()) continue;
      // Native atomics are what the driver tells NVLink from PCIe by.
      int native_atomics = 0;
      if (peer >= 0) {
        check(driver().device_peer_attribute(&native_atomics,
                                             CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                             device.ordinal(), peer),
              "asking what connects GPUs");
      }
      if (native_atomics != 0) continue;
      throw BackendError(
          "kernel '" + std::string(kernel) +
          "' has the protocol ll128, which needs NVLink between " + "GPUs, but rank " +
          std::to_string(comm.rank()) + "'s (" + device.name() + ") and rank " +
          std::to_string(rank) + "'s (" +
          (peer >= 0 ? Device::at(peer).name() + ") are connected otherwise"
                     : "hidden from this process, as by CUDA_VISIBLE_DEVICES) may not have it") +
          "; use the protocol ll or simple");
    }
  });
}

}  // namespace coconet::jit
