// Tells which ranks are on which node, and addresses the memory of a node by the numbers of the whole world.
#include "jit/comm/worlds/nodes.h"

#include <algorithm>
#include <numeric>

#include "jit/comm/barrier/barrier.h"
#include "jit/comm/memory/peer_memory.h"

namespace coconet::jit {

namespace {

/// Memory of the ranks of one node as a rank of the whole world sees it.
class NodeMemory final : public PeerMemory {
 public:
  NodeMemory(std::shared_ptr<PeerMemory> memory, const std::vector<int>& numbers, int rank,
             int ranks)
      : memory_(std::move(memory)), rank_(rank), blocks_(static_cast<std::size_t>(ranks)) {
    for (std::size_t here = 0; here < numbers.size(); ++here) {
      blocks_[static_cast<std::size_t>(numbers[here])] = memory_->base(static_cast<int>(here));
    }
  }
  [[nodiscard]] std::byte* base(int rank) const override {
    return blocks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] std::size_t bytes() const override { return memory_->bytes(); }
  [[nodiscard]] std::byte* multicast() const override { return memory_->multicast(); }
  [[nodiscard]] std::string no_multicast() const override { return memory_->no_multicast(); }

 private:
  std::shared_ptr<PeerMemory> memory_;
  int rank_;
  std::vector<std::byte*> blocks_;
};

}  // namespace

Nodes::Nodes(int ranks) : nodes_(1), node_of_(static_cast<std::size_t>(ranks), 0) {
  nodes_[0].ranks.resize(static_cast<std::size_t>(ranks));
  std::iota(nodes_[0].ranks.begin(), nodes_[0].ranks.end(), 0);
}

Nodes::Nodes(const std::vector<int>& first_by_rank, const std::vector<std::string>& name_by_rank) {
  for (std::size_t rank = 0; rank < first_by_rank.size(); ++rank) {
    const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) {
      return node.ranks.front() == first_by_rank[rank];
    });
    node_of_.push_back(static_cast<int>(found - nodes_.begin()));
    if (found == nodes_.end()) nodes_.push_back({name_by_rank[rank], {}});
    nodes_[static_cast<std::size_t>(node_of_.back())].ranks.push_back(static_cast<int>(rank));
  }
}

const std::vector<int>& Nodes::beside(int rank) const {
  return nodes_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(rank)])].ranks;
}

bool Nodes::share(const std::vector<int>& ranks) const {
  const auto node_of = [&](int rank) { return node_of_[static_cast<std::size_t>(rank)]; };
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return node_of(rank) == node_of(ranks.front()); });
}

std::string Nodes::places(const std::vector<int>& ranks) const {
  std::string text;
  for (const Node& node : nodes_) {
    std::vector<int> here;
    for (const int rank : node.ranks) {
      if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) here.push_back(rank);
    }
    if (!here.empty()) text += (text.empty() ? "" : "; ") + name_ranks(here) + " on " + node.name;
  }
  return text;
}

std::shared_ptr<PeerMemory> allocate_in_nodes(
    Comm& comm, std::size_t bytes,
    const std::function<std::shared_ptr<PeerMemory>(Comm& node)>& allocate) {
  agree_on_bytes(bytes, [&](std::string_view mine) { return comm.all_gather(mine); });
  std::shared_ptr<PeerMemory> memory;
  together(comm, [&] { memory = allocate(comm.node()); });
  return std::make_shared<NodeMemory>(std::move(memory), comm.nodes().beside(comm.rank()),
                                      comm.rank(), comm.size());
}

}  // namespace coconet::jit
