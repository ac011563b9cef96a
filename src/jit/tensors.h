// The memory of a plan's buffers on this rank: the library's own or the caller's, and where the peers' parts are.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/world.h"
#include "ir/extents.h"
#include "jit/comm/comm.h"
#include "sched/plan.h"

namespace coconet::jit {

/// Zeroed private memory, aligned to 4096 bytes; pages that nobody touches take no memory.
class PrivateMemory {
 public:
  explicit PrivateMemory(std::size_t bytes);
  ~PrivateMemory();
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class Tensors {
 public:
  /// Collective: reserves memory for all buffers.
  Tensors(Comm& comm, const sched::Plan& plan, const std::map<std::string, std::int64_t>& sizes);

  struct Tensor {
    const sched::PlanBuffer* buffer = nullptr;
    ir::Part part;                  ///< what this rank holds
    std::size_t count = 0;          ///< its elements
    std::size_t bytes = 0;          ///< allocated, padding included
    std::byte* data = nullptr;      ///< in use: own or bound
    std::vector<std::byte*> peers;  ///< by rank of the world, when the buffer has peer access
    bool bound = false;             ///< the application chose the memory
  };
  [[nodiscard]] const Tensor& operator[](sched::BufferId id) const {
    return tensors_[static_cast<std::size_t>(id)];
  }
  /// Changes whenever a pointer does.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  /// The buffer of an input, state or output. Throws BackendError naming the nearest known one.
  [[nodiscard]] sched::BufferId find(std::string_view name) const;

  /// Uses the library's own memory.
  void* own(std::string_view name, DType dtype);
  void bind(std::string_view name, DType dtype, void* data, std::size_t count);
  void bind(std::string_view name, const Buffer& buffer);
  /// Throws BackendError when an input or a state has no memory yet.
  void require_bound() const;

 private:
  Tensor& checked(std::string_view name, DType dtype, std::size_t count);
  /// Where the library's own memory for buffer `id` starts.
  [[nodiscard]] std::byte* own_memory(std::size_t id) const;
  [[nodiscard]] std::string describe(const Tensor& tensor) const;

  Comm& comm_;
  const sched::Plan& plan_;
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> offsets_;  ///< into shared_ or private_
  std::shared_ptr<PeerMemory> shared_;
  std::unique_ptr<PrivateMemory> private_;
  std::map<sched::BufferId, Buffer> buffers_;  ///< keeps bound memory alive
  std::uint64_t version_ = 1;
};

}  // namespace coconet::jit
