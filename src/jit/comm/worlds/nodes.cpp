// Tells which ranks are on which node.
#include "jit/comm/worlds/nodes.h"

#include <fmt/format.h>

#include <algorithm>

#include "jit/comm/barrier/barrier.h"

namespace coconet::jit {

Nodes::Nodes(int ranks) : Nodes(Indexed<int>(ranks), Indexed<std::string>(ranks)) {}

Nodes::Nodes(const Indexed<int>& first_by_rank, const Indexed<std::string>& name_by_rank) {
  for (int rank = 0; rank < first_by_rank.count(); ++rank) {
    const auto found = std::ranges::find(nodes_, first_by_rank[rank],
                                         [](const Node& node) { return node.ranks.front(); });
    node_of_.push_back(static_cast<int>(found - nodes_.begin()));
    if (found == nodes_.end()) nodes_.push_back({name_by_rank[rank], {}});
    nodes_[node_of_.back()].ranks.push_back(rank);
  }
}

bool Nodes::share(const std::vector<int>& ranks) const {
  return std::ranges::all_of(ranks,
                             [&](int rank) { return node_of_[rank] == node_of_[ranks.front()]; });
}

std::string Nodes::places(const std::vector<int>& ranks) const {
  std::vector<std::string> texts;
  for (const Node& node : nodes_) {
    std::vector<int> here;
    std::ranges::copy_if(node.ranks, std::back_inserter(here),
                         [&](int rank) { return std::ranges::find(ranks, rank) != ranks.end(); });
    if (!here.empty()) texts.push_back(fmt::format("{} on {}", name_ranks(here), node.name));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace coconet::jit
