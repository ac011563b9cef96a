// A group that has three ways: short messages are copied through shared memory, tensors in peer memory stay where they
// are, and the rest is MPI's.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "jit/comm/collectives/peer_group.h"
#include "jit/comm/comm.h"

namespace coconet::jit {

class TieredGroup final : public Group {
 public:
  /// All have the same ranks and begin every call with the same barrier.
  TieredGroup(std::shared_ptr<CopyGroup> small, std::shared_ptr<PeerGroup> direct,
              std::shared_ptr<Group> large)
      : small_(std::move(small)), direct_(std::move(direct)), large_(std::move(large)) {}

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
  void shift(const void* in, void* out, std::size_t count, DType dtype, int offset) override;
  void refuse() override { small_->refuse(); }

 private:
  /// Bytes up to which a copy takes less time than `direct`'s second barrier: with 2 ranks of one socket. From there
  /// to `CopyGroup::capacity` `direct` took 0.5 to 0.8 of `small`'s time.
  static constexpr std::size_t always_copied = 4096;

  /// The way of a call in which no rank has more than `bytes`, as all ranks know.
  [[nodiscard]] Group& group_for(std::string_view call, std::size_t bytes, const void* in,
                                 const void* out) const;

  std::shared_ptr<CopyGroup> small_;
  std::shared_ptr<PeerGroup> direct_;
  std::shared_ptr<Group> large_;
};

}  // namespace coconet::jit
