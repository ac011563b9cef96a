// Multicast pointers: an address behind which blocks of all ranks' GPUs are, made of CUDA's
// multicast objects. For .cpp files of builds with CUDA only.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/comm/comm.h"
#include "jit/platform/cuda/peer_blocks.h"

namespace coconet::jit {

/// This process's hold on a multicast object: what it bound and mapped is given back at the end, in
/// the driver's order.
class Multicast {
 public:
  /// An object for `bytes` on each of `gpus`. Throws BackendError, as all calls here do.
  Multicast(int gpus, std::size_t bytes);
  /// The object of `bytes` that another process handed over as `descriptor`.
  Multicast(std::size_t bytes, const Descriptor& descriptor);
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;
  ~Multicast();

  [[nodiscard]] Descriptor descriptor() const { return object_->descriptor(); }
  void add(const Device& device);
  /// Puts the memory of a device behind the address. All GPUs must have been added.
  void bind(const Device& device, const MemoryHandle& memory);
  /// Gives it an address that kernels on `devices` may use. All memory must have been bound.
  void map(const std::vector<int>& devices);
  [[nodiscard]] std::byte* data() const { return mapped_->data(); }

 private:
  std::unique_ptr<const MemoryHandle> object_;
  std::size_t bytes_;
  std::mutex mutex_;  ///< ranks that are threads bind at once
  std::vector<int> bound_;
  std::optional<Mapped> mapped_;
};

/// Collective: whether the ranks can have a multicast pointer, and the bytes that the memory behind
/// it then comes in.
struct MulticastSupport {
  std::string problem;  ///< why they cannot, the same on all ranks; empty where they can
  std::size_t granularity = 1;
};
[[nodiscard]] MulticastSupport multicast_support(Comm& comm, const Device& device,
                                                 const std::vector<std::string>& uuids);

/// Collective: the multicast pointer to `bytes` of every rank's `memory`, for kernels on `devices`
/// of this process. Where the machine refuses, `problem` says why, the same on all ranks, and
/// nothing is left over. Throws CommError only.
[[nodiscard]] std::shared_ptr<const Multicast> make_multicast(Comm& comm, const Device& device,
                                                              const MemoryHandle& memory,
                                                              std::size_t bytes,
                                                              const std::vector<int>& devices,
                                                              std::string& problem);

}  // namespace coconet::jit
