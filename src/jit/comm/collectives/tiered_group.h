// A group that has three ways: short messages are copied through shared memory, tensors in peer memory stay where they
// are, and the rest is MPI's.
#pragma once

#include <cstddef>
#include <memory>

#include "jit/comm/collectives/collectives.h"
#include "jit/comm/collectives/peer_group.h"

namespace coconet::jit {

class TieredGroup final : public Collectives {
 public:
  /// All have the same ranks and begin every call with the same barrier.
  TieredGroup(std::shared_ptr<CopyGroup> small, std::shared_ptr<PeerGroup> direct,
              std::shared_ptr<Collectives> large)
      : small_(std::move(small)), direct_(std::move(direct)), large_(std::move(large)) {}

  void run(Queue& queue, const CollectiveCall& call) override;
  void refuse() override { small_->refuse(); }

 private:
  /// Bytes up to which a copy takes less time than `direct`'s second barrier: with 2 ranks of one socket. From there
  /// to `CopyGroup::capacity` `direct` took 0.5 to 0.8 of `small`'s time.
  static constexpr std::size_t always_copied = 4096;

  std::shared_ptr<CopyGroup> small_;
  std::shared_ptr<PeerGroup> direct_;
  std::shared_ptr<Collectives> large_;
};

}  // namespace coconet::jit
