// Memory of one kernel that its ranks share: mailboxes for chunks and places for totals.
#pragma once

#include "jit/bind/rank_plan.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class ExchangeMemory {
 public:
  /// Collective. Takes memory only if the kernel of `step` has mailboxes, or reductions on its way.
  ExchangeMemory(Comm& comm, const Platform& platform, const RankPlan& plan,
                 const sched::KernelStep& step, const Grid& grid);

  [[nodiscard]] const abi::Slices& slices() const { return slices_; }
  /// Bytes of this rank.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// For the first launch.
  [[nodiscard]] const abi::MailboxesHead& mailboxes() const { return mailboxes_; }
  /// Of which totals are counted.
  [[nodiscard]] std::int64_t shares() const { return shares_; }
  /// Where they are on each rank of the group, and where the totals are.
  [[nodiscard]] std::vector<std::byte*> mailboxes_of_ranks() const { return of_ranks(0); }
  [[nodiscard]] std::vector<std::byte*> totals_of_ranks() const { return of_ranks(totals_at_); }
  [[nodiscard]] std::vector<std::byte*> buffer_totals_of_ranks() const {
    return of_ranks(buffer_totals_at_);
  }

 private:
  void size_mailboxes(const sched::Plan& plan, const sched::KernelStep& step, int ranks,
                      int blocks);
  /// Null where a rank is on another node, to which no kernel that exchanges data reaches.
  [[nodiscard]] std::vector<std::byte*> of_ranks(std::size_t offset) const;

  std::vector<int> group_;
  abi::Slices slices_{};
  abi::MailboxesHead mailboxes_{};
  std::int64_t shares_ = 1;
  std::size_t totals_at_ = 0;
  std::size_t buffer_totals_at_ = 0;
  std::size_t bytes_ = 0;
  std::shared_ptr<PeerMemory> shared_;
  std::shared_ptr<Memory> own_;  ///< instead, in a world of one rank
};

}  // namespace coconet::jit
