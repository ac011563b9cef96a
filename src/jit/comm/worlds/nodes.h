// Which ranks of a world share memory, and what follows for its allocations.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/comm/comm.h"

namespace coconet::jit {

/// The nodes of a world: each rank is on one, and shares memory with the others there.
class Nodes {
 public:
  /// One node of `ranks` ranks.
  explicit Nodes(int ranks);
  /// By rank: the lowest rank on its node, and what that node is called.
  Nodes(const std::vector<int>& first_by_rank, const std::vector<std::string>& name_by_rank);

  [[nodiscard]] int count() const { return static_cast<int>(nodes_.size()); }
  /// The ranks on the node of `rank`, in their order.
  [[nodiscard]] const std::vector<int>& beside(int rank) const;
  /// Whether `ranks`, at least one, are on one node.
  [[nodiscard]] bool share(const std::vector<int>& ranks) const;
  /// "ranks 0 and 1 on ada; rank 2 on bob", of `ranks` only.
  [[nodiscard]] std::string places(const std::vector<int>& ranks) const;

 private:
  struct Node {
    std::string name;
    std::vector<int> ranks;
  };
  std::vector<Node> nodes_;   ///< by their lowest rank
  std::vector<int> node_of_;  ///< by rank
};

/// Collective over a world of several nodes: memory of `bytes` on every rank, which `allocate` makes in each node. What
/// goes wrong in one node goes wrong on all ranks.
[[nodiscard]] std::shared_ptr<PeerMemory> allocate_in_nodes(
    Comm& comm, std::size_t bytes,
    const std::function<std::shared_ptr<PeerMemory>(Comm& node)>& allocate);

}  // namespace coconet::jit
