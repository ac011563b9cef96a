// Counts, one a tile, that tell the next step of an overlap what has been made of a tensor.
#pragma once

#include <algorithm>

#include "jit/bind/rank_plan.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

class TileCounts {
 public:
  /// For what the step after `producer` in an overlap takes of buffer `id`.
  TileCounts(const Platform& platform, const RankPlan& plan, std::size_t producer,
             sched::BufferId id);

  /// What kernels are told of the tiles; run 0 is none yet.
  [[nodiscard]] abi::Tiles argument() const;
  [[nodiscard]] std::int64_t tiles() const { return (count_ + tile_ - 1) / tile_; }
  /// The first element of a tile; of the one after the last: the end of the tensor.
  [[nodiscard]] std::int64_t begin(std::int64_t tile) const {
    return std::min(tile * tile_, count_);
  }
  /// All tiles, those first that the step after needs first.
  [[nodiscard]] const std::vector<std::int64_t>& order() const { return order_; }
  /// On the host: says that `tile` is made.
  void signal(std::int64_t tile) const;

 private:
  std::int64_t tile_ = 1;   ///< elements
  std::int64_t count_ = 0;  ///< elements of the tensor on this rank
  std::vector<std::int64_t> order_;
  std::shared_ptr<Memory> made_;
};

/// By buffer: the counts of all that the steps of `plan` hand on tile by tile.
using AllTileCounts = std::map<sched::BufferId, TileCounts>;
[[nodiscard]] AllTileCounts make_tile_counts(const Platform& platform, const RankPlan& plan);

}  // namespace coconet::jit
