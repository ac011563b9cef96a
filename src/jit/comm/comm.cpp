// What all worlds do alike: a step that fails on one rank fails on all of them, and ranks agree on
// what they ask for together.
#include "jit/comm/comm.h"

#include <fmt/format.h>

#include <stdexcept>

#include "coconet/error.h"

namespace coconet::jit {

namespace {

/// Throws the same CommError on every rank unless each rank is in the group that it passes and all
/// of a group's ranks pass that group.
void require_division(const std::vector<std::vector<int>>& groups) {
  const int ranks = static_cast<int>(groups.size());
  const auto text_of = [](const std::vector<int>& group) {
    return fmt::format("{{{}}}", fmt::join(group, ", "));
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int>& group = groups[rank];
    const std::string whose = fmt::format("rank {} passes the group {}", rank, text_of(group));
    if (std::ranges::count(group, rank) != 1)
      throw CommError(whose + ", which must hold that rank once");
    for (const int peer : group) {
      if (peer < 0 || peer >= ranks) {
        throw CommError(fmt::format("{}, but the world has the ranks 0 to {}", whose, ranks - 1));
      }
      if (groups[peer] != group) {
        throw CommError(
            fmt::format("{}, but rank {} passes {}; all ranks of a group must pass the same one",
                        whose, peer, text_of(groups[peer])));
      }
    }
  }
}

}  // namespace

Comm::Comm(std::string_view kind, int rank, Nodes nodes, std::shared_ptr<Membership> membership,
           int ranks_per_core, std::shared_ptr<const Config> config)
    : kind_(kind),
      rank_(rank),
      nodes_(std::move(nodes)),
      membership_(std::move(membership)),
      ranks_per_core_(ranks_per_core),
      config_(std::move(config)) {}

void Comm::set_ways(const CollectiveWays& ways) {
  *ways_ = ways;
  if (&node() != this) node().set_ways(ways);
}

std::string Comm::broadcast(std::string_view mine, int root) {
  if (root < 0 || root >= size())
    throw InternalError(fmt::format("broadcast from rank {} of a world of {}", root, size()));
  return std::move(gather(root == rank() ? mine : std::string_view(), "broadcast")[root]);
}

bool Comm::any_failed(bool failed, std::uint64_t given) {
  const std::string failure = "failed", mine = failed ? failure : std::to_string(given);
  const std::vector<std::string> all = all_gather(mine);
  if (std::ranges::count(all, failure) > 0) return true;
  if (std::ranges::count(all, mine) < size()) throw Differs("ranks were given different things");
  return false;
}

std::shared_ptr<Comm> Comm::shrink() {
  throw CommError(fmt::format(
      "a world of {} nodes cannot shrink; end the job, and start it again on the nodes that are "
      "left",
      nodes_.count()));
}

std::shared_ptr<void> Comm::share(std::shared_ptr<void> object) {
  if (size() > 1) throw InternalError("ranks of several processes cannot share an object");
  return object;
}

std::shared_ptr<Collectives> Comm::collectives(const std::vector<int>& ranks) {
  const std::string_view bytes(reinterpret_cast<const char*>(ranks.data()),
                               ranks.size() * sizeof(int));
  Division division;
  for (const std::string& text : all_gather(bytes)) {
    std::vector<int>& group = division.emplace_back(text.size() / sizeof(int));
    if (!text.empty()) std::memcpy(group.data(), text.data(), text.size());
  }
  require_division(division);
  return make_collectives(ranks, division);
}

std::string message_of(const std::exception_ptr& error) {
  constexpr const char* no_memory =
      "There is no more memory for this process: make the sizes smaller, or run fewer ranks on a "
      "machine.";
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return no_memory;
  } catch (const std::length_error&) {  // more than any process can have
    return no_memory;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

std::vector<std::string> gather_together(Comm& comm, const std::function<std::string()>& body) {
  // Success or failure in the first byte.
  constexpr char success = '+';
  constexpr char failure = '!';
  std::exception_ptr mine;
  std::string message;
  try {
    message = success + body();
  } catch (...) {
    mine = std::current_exception();
    message = failure + message_of(mine);
  }

  std::vector<std::string> messages;
  try {
    messages = comm.all_gather(message);
  } catch (const CommError&) {
    // The world itself is lost; an own error is nearer to the cause.
    if (!mine) throw;
  }
  if (mine) std::rethrow_exception(mine);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const bool failed = messages[rank].front() == failure;
    messages[rank].erase(0, 1);
    if (failed) throw PeerFailure(fmt::format("rank {}: {}", comm.number_of(rank), messages[rank]));
  }
  return messages;
}

void together(Comm& comm, const std::function<void()>& body) {
  (void)gather_together(comm, [&] {
    body();
    return std::string();
  });
}

void agree_on_bytes(Comm& comm, std::size_t bytes) {
  const std::vector<std::string> asked = comm.all_gather(std::to_string(bytes));
  const auto other = std::ranges::find_if(asked, [&](const auto& one) { return one != asked[0]; });
  if (other == asked.end()) return;
  throw CommError(
      fmt::format("rank {} allocates {} bytes, but rank 0 {}; allocate is collective, all ranks "
                  "must ask for the same size",
                  other - asked.begin(), *other, asked[0]));
}

std::shared_ptr<PeerMemory> allocate_in_nodes(
    Comm& comm, std::size_t bytes,
    const std::function<std::shared_ptr<PeerMemory>(Comm& node)>& allocate) {
  agree_on_bytes(comm, bytes);
  std::shared_ptr<PeerMemory> memory;
  together(comm, [&] { memory = allocate(comm.node()); });
  Indexed<std::byte*> blocks(comm.size());
  for (int place = 0; place < memory->ranks(); ++place)
    blocks[comm.node().number_of(place)] = memory->base(place);
  return std::make_shared<PeerMemory>(std::move(blocks), comm.rank(), memory->bytes(), memory,
                                      memory->multicast(), memory->no_multicast());
}

}  // namespace coconet::jit
