// Tells which ranks are on which node.
#include "jit/comm/nodes.h"

#include <map>

#include "jit/comm/meeting.h"

namespace coconet::jit {

std::string several_nodes_message(const std::vector<std::string>& host_by_rank) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t rank = 0; rank < host_by_rank.size(); ++rank) {
    hosts[host_by_rank[rank]].push_back(static_cast<int>(rank));
  }
  std::string where;
  for (const auto& [host, ranks] : hosts) {
    where += (where.empty() ? "" : "; ") + name_ranks(ranks) + " on " + host;
  }
  return "the ranks cannot all share memory (" + where +
         "); a world has to be on one node, so start all ranks on the same one";
}

}  // namespace coconet::jit
