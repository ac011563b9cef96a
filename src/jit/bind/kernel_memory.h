// Memory of one kernel that its ranks share: mailboxes for chunks and places for totals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "jit/bind/rank_plan.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class KernelMemory {
 public:
  /// Collective. Takes memory only if the kernel has mailboxes or reductions.
  KernelMemory(Comm& comm, const Platform& platform, const RankPlan& plan,
               const sched::KernelStep& step, const Grid& grid);

  /// The prelude's Slices on this rank.
  [[nodiscard]] std::vector<std::uint64_t> slices_words() const { return slices_.words(); }
  /// The prelude's Mail for the ranks of `group`; the word at `first_word` of it is the number of the first chunk.
  [[nodiscard]] std::vector<std::uint64_t> mail_words(const std::vector<int>& group) const;
  /// The prelude's Totals, whose last word is the turn.
  [[nodiscard]] std::vector<std::uint64_t> totals_words(const std::vector<int>& group) const;
  /// Chunk numbers that a launch uses.
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }
  /// Elements between the starts of slices, and of rows of slices; 0 where there is one only.
  [[nodiscard]] std::int64_t slice_stride() const {
    return slices_.only >= 0 ? 0 : slices_.block * slices_.inner;
  }
  [[nodiscard]] std::int64_t row_stride() const {
    return slices_.outer > 1 ? slices_.extent * slices_.inner : 0;
  }

 private:
  void size_mail(const sched::Plan& plan, const sched::KernelStep& step);
  /// 0 where `rank` is on another node, to which no kernel that exchanges data reaches.
  [[nodiscard]] std::uint64_t address(int rank, std::size_t offset) const;

  Slices slices_;
  std::int64_t chunk_ = 0;
  std::uint64_t chunks_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t totals_at_ = 0;
  std::shared_ptr<PeerMemory> of_ranks_;
  std::shared_ptr<Memory> own_;  ///< instead, in a world of one rank
};

}  // namespace coconet::jit
