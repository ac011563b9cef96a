// Which ranks of a world share memory.
#pragma once

#include <string>
#include <vector>

#include "coconet/export.h"
#include "ir/indexed.h"

namespace coconet::jit {

/// The nodes of a world: each rank is on one, and shares memory with the others there.
class COCONET_API Nodes {
 public:
  /// One node of `ranks` ranks.
  explicit Nodes(int ranks);
  /// By rank: the lowest rank on its node, and what that node is called.
  Nodes(const Indexed<int>& first_by_rank, const Indexed<std::string>& name_by_rank);

  [[nodiscard]] int count() const { return nodes_.count(); }
  /// Of all nodes.
  [[nodiscard]] int ranks() const { return node_of_.count(); }
  /// The ranks on the node of `rank`, in their order.
  [[nodiscard]] const std::vector<int>& beside(int rank) const {
    return nodes_[node_of_[rank]].ranks;
  }
  /// Whether `ranks`, at least one, are on one node.
  [[nodiscard]] bool share(const std::vector<int>& ranks) const;
  /// "ranks 0 and 1 on ada; rank 2 on bob", of `ranks` only.
  [[nodiscard]] std::string places(const std::vector<int>& ranks) const;

 private:
  struct Node {
    std::string name;
    std::vector<int> ranks;
  };
  Indexed<Node> nodes_;   ///< by their lowest rank
  Indexed<int> node_of_;  ///< by rank
};

}  // namespace coconet::jit
