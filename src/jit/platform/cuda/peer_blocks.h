// Memory of GPUs by CUDA's virtual memory management: handles, and addresses that they are mapped
// at. For .cpp files of builds with CUDA only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "jit/comm/memory/descriptors.h"
#include "jit/platform/cuda/device.h"

namespace coconet::jit {

/// A handle of physical memory, or of a multicast object; released at the end. Mappings keep what
/// is behind it.
class MemoryHandle {
 public:
  /// A CUmemGenericAllocationHandle.
  explicit MemoryHandle(unsigned long long handle) : handle_(handle) {}
  MemoryHandle(const MemoryHandle&) = delete;
  MemoryHandle& operator=(const MemoryHandle&) = delete;
  ~MemoryHandle();

  [[nodiscard]] unsigned long long get() const { return handle_; }
  /// For other processes. Throws BackendError.
  [[nodiscard]] Descriptor descriptor() const;

 private:
  unsigned long long handle_;
};

/// `bytes` of physical memory, a multiple of `granularity_of`. Throws BackendError with what is
/// free when it does not fit.
[[nodiscard]] std::unique_ptr<const MemoryHandle> allocate_physical(const Device& device,
                                                                    std::size_t bytes);
/// What another process handed over as `descriptor`. Throws BackendError.
[[nodiscard]] std::unique_ptr<const MemoryHandle> import_memory(int descriptor);
/// Bytes that physical memory of `device` comes in. Throws BackendError.
[[nodiscard]] std::size_t granularity_of(const Device& device);
/// Collective: the greatest of all ranks' numbers.
[[nodiscard]] std::size_t greatest_of_all(Comm& comm, std::size_t mine);

/// Addresses of this process that kernels on `devices` may use.
class Mapped {
 public:
  Mapped(const MemoryHandle& memory, std::size_t bytes, const std::vector<int>& devices);
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { release(); }

  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  void release();

  unsigned long long address_ = 0;  ///< CUdeviceptr
  std::size_t bytes_;
  bool mapped_ = false;
};

}  // namespace coconet::jit
