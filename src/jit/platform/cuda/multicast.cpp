// Making multicast pointers, step by step on all ranks: every GPU is added before any memory is
// bound, and all memory is bound before anyone uses the address.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "coconet/error.h"
#include "jit/config/log.h"
#include "jit/platform/cuda/peer_memory.h"

namespace coconet::jit {

namespace {

CUmulticastObjectProp properties_of(int gpus, std::size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(gpus);
  properties.size = bytes;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

/// Collective: why `body` failed on the first rank where it did; empty when it failed on none.
std::string first_failure(Comm& comm, const std::function<void()>& body) {
  std::string mine;
  try {
    body();
  } catch (const BackendError& error) {
    mine = error.what();
  }
  const std::vector<std::string> all = comm.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::string problem_of(const Device& device) {
  if (!driver().knows_multicast) return "its driver is older than CUDA 12.1";
  if (!device.multicasts())
    return device.name + " has none, which takes NVSwitches and sm_90 or later";
  return {};
}

/// A multicast object; what this process bound and mapped is given back in the driver's order.
struct Multicast {
  Multicast(std::unique_ptr<const MemoryHandle> made, std::size_t size)
      : object(std::move(made)), bytes(size) {}
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;
  ~Multicast() {
    mapped.reset();
    for (const int device : bound) (void)driver().multicast_unbind(object->get(), device, 0, bytes);
  }
  /// Puts the memory of a device behind the address. All GPUs must have been added.
  void bind(const Device& device, const MemoryHandle& memory) {
    const std::lock_guard lock(mutex);
    check(driver().multicast_bind(object->get(), 0, memory.get(), 0, bytes, 0),
          "binding memory of " + device.name + " to a multicast object");
    bound.push_back(device.ordinal);
  }

  std::unique_ptr<const MemoryHandle> object;
  std::size_t bytes;
  std::mutex mutex;  ///< ranks that are threads bind at once
  std::vector<int> bound;
  std::shared_ptr<std::byte> mapped;
};

std::shared_ptr<Multicast> create_multicast(int gpus, std::size_t bytes) {
  const CUmulticastObjectProp properties = properties_of(gpus, bytes);
  CUmemGenericAllocationHandle object = 0;
  check(driver().multicast_create(&object, &properties), "making a multicast object");
  return std::make_shared<Multicast>(std::make_unique<const MemoryHandle>(object), bytes);
}

}  // namespace

MulticastSupport multicast_support(Comm& comm, const Device& device,
                                   const std::vector<std::string>& uuids) {
  MulticastSupport support;
  for (auto uuid = uuids.begin(); uuid != uuids.end(); ++uuid) {
    const auto other = std::find(uuids.begin(), uuid, *uuid);
    if (other == uuid) continue;
    const auto rank = uuid - uuids.begin();
    support.problem = fmt::format("ranks {} and {} share {}, and each needs a GPU of its own",
                                  other - uuids.begin(), rank, comm.all_gather(device.name)[rank]);
    return support;
  }
  support.problem = first_failure(comm, [&] {
    if (const std::string problem = problem_of(device); !problem.empty())
      throw BackendError(problem);
    const CUmulticastObjectProp properties = properties_of(comm.size(), 1);
    // The recommended one may be hundreds of MiB, and every Buffer is memory of its own.
    check(driver().multicast_granularity(&support.granularity, &properties,
                                         CU_MULTICAST_GRANULARITY_MINIMUM),
          "asking for the granularity of multicast objects");
  });
  support.granularity = greatest_of_all(comm, support.granularity);
  return support;
}

std::shared_ptr<std::byte> make_multicast(Comm& comm, const Device& device,
                                          const MemoryHandle& memory, std::size_t bytes,
                                          const std::vector<int>& devices, std::string& problem) {
  const bool threads = comm.in_one_process();
  const bool first = comm.rank() == 0;
  std::shared_ptr<Multicast> object;
  OpenFile exported;
  const auto step = [&](const std::function<void()>& body) {
    if (problem.empty()) problem = first_failure(comm, body);
  };
  step([&] {
    if (first) object = create_multicast(comm.size(), bytes);
    // Every rank hands over a descriptor, but only the first rank's is used.
    if (!threads) exported = (first ? *object->object : memory).descriptor();
  });
  if (problem.empty() && threads) {
    object = std::static_pointer_cast<Multicast>(comm.share(object));
  } else if (problem.empty()) {
    const std::vector<OpenFile> descriptors = exchange_descriptors(comm, exported.number());
    step([&] {
      if (!first) object = std::make_shared<Multicast>(import_memory(descriptors.front()), bytes);
    });
  }
  step([&] {
    check(driver().multicast_add_device(object->object->get(), device.ordinal),
          "adding " + device.name + " to a multicast object");
  });
  step([&] { object->bind(device, memory); });
  step([&] {
    if (first || !threads) object->mapped = object->object->map(bytes, devices);
  });
  if (problem.empty()) return {object, object->mapped.get()};
  if (first) log_info("there is no multicast pointer to memory of the GPUs: " + problem);
  return nullptr;
}

}  // namespace coconet::jit
