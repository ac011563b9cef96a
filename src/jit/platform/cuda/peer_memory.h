// Memory of GPUs that other ranks reach, by CUDA's virtual memory management. For .cpp files of
// builds with CUDA only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/comm/comm.h"
#include "jit/comm/memory/descriptors.h"
#include "jit/platform/cuda/driver.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// `Platform::allocate_peer` and `Platform::require_whole_lines`: threads of one process use each
/// other's addresses, processes map each other's memory; what NVLink connects sees whole lines.
[[nodiscard]] std::shared_ptr<PeerMemory> allocate_on_devices(Comm& comm, std::size_t bytes,
                                                              bool multicast);
void require_nvlink(Comm& comm, std::span<const int> group, std::string_view kernel);

/// `Platform::allocate_window`: physical memory that NCCL can map on other GPUs, the most bytes
/// that a rank asks for. Empty on all ranks unless all of them want it.
[[nodiscard]] Window allocate_window_on_device(Comm& comm, const Device& device, std::size_t bytes,
                                               bool wanted);

/// A handle of physical memory, or of a multicast object; released at the end. Mappings keep what
/// is behind it.
class MemoryHandle {
 public:
  explicit MemoryHandle(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  MemoryHandle(const MemoryHandle&) = delete;
  MemoryHandle& operator=(const MemoryHandle&) = delete;
  ~MemoryHandle() { (void)driver().physical_release(handle_); }

  [[nodiscard]] CUmemGenericAllocationHandle get() const { return handle_; }
  /// For other processes. Throws BackendError.
  [[nodiscard]] OpenFile descriptor() const;
  /// An address of this process for `bytes` of it, which kernels on `devices` may use; unmapped at
  /// the end. Throws BackendError.
  [[nodiscard]] std::shared_ptr<std::byte> map(std::size_t bytes,
                                               const std::vector<int>& devices) const;

 private:
  CUmemGenericAllocationHandle handle_;
};

/// What another process handed over as `descriptor`. Throws BackendError.
[[nodiscard]] std::unique_ptr<const MemoryHandle> import_memory(const OpenFile& descriptor);

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
[[nodiscard]] std::shared_ptr<std::byte> make_multicast(Comm& comm, const Device& device,
                                                        const MemoryHandle& memory,
                                                        std::size_t bytes,
                                                        const std::vector<int>& devices,
                                                        std::string& problem);

}  // namespace coconet::jit
