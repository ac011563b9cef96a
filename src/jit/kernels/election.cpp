// A greedy assignment.
#include "jit/kernels/election.h"

#include <algorithm>
#include <array>
#include <map>

#include "ir/indexed.h"

namespace coconet::jit {

std::vector<Task> elect(const std::vector<std::vector<Need>>& needs) {
  std::vector<Task> tasks;
  std::map<Digest, std::vector<int>> candidates;
  std::map<Digest, std::size_t> place;
  std::size_t most = 0;
  for (const std::vector<Need>& needed : needs) most = std::max(most, needed.size());
  for (std::size_t index = 0; index < most; ++index) {
    for (std::size_t rank = 0; rank < needs.size(); ++rank) {
      if (index >= needs[rank].size()) continue;
      const Need& need = needs[rank][index];
      const auto [at, is_new] = place.try_emplace(need.digest, tasks.size());
      if (is_new) tasks.push_back({need.digest, 0, need.reach});
      Task& task = tasks[at->second];
      std::vector<int>& ranks = candidates[need.digest];
      if (need.reach > task.reach) ranks.clear();
      task.reach = std::max(task.reach, need.reach);
      if (need.reach == task.reach) ranks.push_back(static_cast<int>(rank));
    }
  }
  Indexed<std::array<int, 3>> load(needs.size());
  for (Task& task : tasks) {
    const auto kind = static_cast<std::size_t>(task.reach);
    const std::vector<int>& ranks = candidates[task.digest];
    task.leader = *std::ranges::min_element(ranks, {}, [&](int rank) { return load[rank][kind]; });
    ++load[task.leader][kind];
  }
  return tasks;
}

}  // namespace coconet::jit
