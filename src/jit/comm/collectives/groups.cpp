// Checks of groups: that all ranks divide the world in the same way, and that collectives get sane
// arguments.
#include "jit/comm/collectives/groups.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

std::string text_of(const std::vector<int>& ranks) {
  std::string text = "{";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text + "}";
}

}  // namespace

std::vector<std::vector<int>> agree_on_groups(Comm& comm, const std::vector<int>& mine) {
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()),
                               mine.size() * sizeof(int));
  std::vector<std::vector<int>> groups;
  for (const std::string& text : comm.all_gather(bytes)) {
    std::vector<int>& group = groups.emplace_back(text.size() / sizeof(int));
    if (!text.empty()) std::memcpy(group.data(), text.data(), text.size());
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::vector<int>& group = groups[rank];
    const std::string whose =
        "rank " + std::to_string(rank) + " passes the group " + text_of(group);
    if (std::count(group.begin(), group.end(), rank) != 1) {
      throw CommError(whose + ", which must hold that rank once");
    }
    for (const int peer : group) {
      if (peer < 0 || peer >= comm.size()) {
        throw CommError(whose + ", but the world has the ranks 0 to " +
                        std::to_string(comm.size() - 1));
      }
      if (groups[peer] != group) {
        throw CommError(whose + ", but rank " + std::to_string(peer) + " passes " +
                        text_of(groups[peer]) + "; all ranks of a group must pass the same one");
      }
    }
  }
  return groups;
}

std::vector<std::size_t> block_starts(std::span<const std::size_t> counts) {
  std::vector<std::size_t> starts{0};
  for (const std::size_t count : counts) starts.push_back(starts.back() + count);
  return starts;
}

void require_sane(const CollectiveCall& call, int ranks) {
  const std::string name(to_string(call.op));
  if (call.blocks(ranks) > 0 && call.counts.size() != call.blocks(ranks)) {
    throw InternalError(name + " was given " + std::to_string(call.counts.size()) +
                        " counts; the group has " + std::to_string(ranks) + " ranks");
  }
  if (call.root < 0 || call.root >= ranks) {
    throw InternalError(name + " was given the root " + std::to_string(call.root) +
                        "; the group has the ranks 0 to " + std::to_string(ranks - 1));
  }
}

void throw_unknown(const CollectiveCall& call) {
  throw InternalError("'" + std::string(to_string(call.op)) + "' is no library collective");
}

}  // namespace coconet::jit
