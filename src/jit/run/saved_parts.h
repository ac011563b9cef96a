// Which rank saves what of the states: each distinct part once, in even shares.
#pragma once

#include <string>
#include <vector>

#include "jit/bind/rank_plan.h"
#include "jit/checkpoint/safetensors.h"

namespace coconet::jit {

/// A state as checkpoints know it.
struct SavedState {
  std::string name;
  sched::BufferId buffer = -1;
  std::int64_t copies = 1;  ///< ranks have different ones along axes where it is local
  int replicas = 1;         ///< ranks have the same along axes where it is replicated
};
/// The states of a plan, those with the largest elements first, so that elements in files are
/// aligned to their size.
[[nodiscard]] std::vector<SavedState> saved_states(const RankPlan& plan);

/// Which of the copies of `state` `rank` has.
[[nodiscard]] std::int64_t copy_of(const RankPlan& plan, const SavedState& state, int rank);

/// What a rank saves of a state: rows that follow each other in its memory.
struct RankShare {
  std::size_t state = 0;  ///< index in `saved_states`
  ir::Part box;           ///< in the whole tensor
  std::size_t begin = 0;  ///< its first byte in the memory of the rank's part
  std::size_t bytes = 0;
};
/// The shares of `rank`, in the order of its file; those that are empty are left out.
[[nodiscard]] std::vector<RankShare> shares_of(const RankPlan& plan,
                                               const std::vector<SavedState>& states, int rank);
/// They as tensors of a file.
[[nodiscard]] std::vector<FileTensor> file_tensors(const RankPlan& plan,
                                                   const std::vector<SavedState>& states,
                                                   const std::vector<RankShare>& shares);

}  // namespace coconet::jit
