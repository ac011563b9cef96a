// A group that takes short messages one way and long ones another.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "jit/comm/comm.h"

namespace coconet::jit {

class TieredGroup final : public Group {
 public:
  /// Both have the same ranks. A call goes to `small` when no rank has more than `capacity` bytes in
  /// it, which all ranks can tell from its arguments.
  TieredGroup(std::shared_ptr<Group> small, std::shared_ptr<Group> large, std::size_t capacity)
      : small_(std::move(small)), large_(std::move(large)), capacity_(capacity) {}

  [[nodiscard]] int rank() const override { return large_->rank(); }
  [[nodiscard]] int size() const override { return large_->size(); }
  void all_reduce(const void* in, void* out, std::size_t count, DType dtype,
                  Reduction reduction) override;
  void reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts, DType dtype,
                      Reduction reduction) override;
  void all_gather(const void* in, void* out, std::span<const std::size_t> counts,
                  DType dtype) override;
  void reduce(const void* in, void* out, std::size_t count, DType dtype, Reduction reduction,
              int root) override;
  void broadcast(void* data, std::size_t count, DType dtype, int root) override;

 private:
  [[nodiscard]] Group& group_for(std::size_t count, DType dtype) const;

  std::shared_ptr<Group> small_;
  std::shared_ptr<Group> large_;
  std::size_t capacity_;
};

}  // namespace coconet::jit
