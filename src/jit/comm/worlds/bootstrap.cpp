// Worlds of processes that an application's own launcher brings together. Its callback is needed
// until they share memory, and not after that.
#include <fmt/format.h>

#include <numeric>

#include "coconet/error.h"
#include "coconet/world.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/introduction.h"
#include "jit/config/log.h"

namespace coconet::jit {

namespace {

/// `bootstrap.all_gather`, whose answer is checked.
std::vector<std::string> gather(const Bootstrap& bootstrap, std::string_view mine) {
  std::vector<std::string> all = bootstrap.all_gather(mine);
  if (std::cmp_not_equal(all.size(), bootstrap.size)) {
    throw CommError(fmt::format(
        "Bootstrap::all_gather returned {} texts on rank {} of {}; it must return one of each rank",
        all.size(), bootstrap.rank, bootstrap.size));
  }
  if (all[bootstrap.rank] != mine) {
    throw CommError(
        fmt::format("Bootstrap::all_gather returned another text for rank {} than that rank gave; "
                    "texts must come back unchanged, in the order of the ranks",
                    bootstrap.rank));
  }
  return all;
}

void require_sane(const Bootstrap& bootstrap) {
  if (bootstrap.size < 1 || bootstrap.rank < 0 || bootstrap.rank >= bootstrap.size) {
    throw CommError(fmt::format("a Bootstrap names rank {} of {} ranks; ranks are 0 to size - 1",
                                bootstrap.rank, bootstrap.size));
  }
  if (!bootstrap.all_gather)
    throw CommError("a Bootstrap has no all_gather, by which its ranks find each other");
}

void require_one_node(const std::vector<std::string>& names) {
  Indexed<int> firsts;
  Indexed<std::string> hosts;
  for (const std::string& name : names) {
    firsts.push_back(static_cast<int>(std::ranges::find(names, name) - names.begin()));
    hosts.push_back(name.substr(0, name.find(' ')));
  }
  const Nodes nodes(firsts, hosts);
  if (nodes.count() == 1) return;
  std::vector<int> all(names.size());
  std::iota(all.begin(), all.end(), 0);
  throw CommError(fmt::format(
      "the ranks of a Bootstrap must be on one node, where they share memory, and these are on {}: "
      "{}; World::mpi joins several nodes",
      nodes.count(), nodes.places(all)));
}

}  // namespace

std::shared_ptr<Comm> make_bootstrap_comm(const Bootstrap& bootstrap,
                                          std::shared_ptr<const Config> config) {
  require_sane(bootstrap);
  const Exchange exchange = [&](std::string_view mine) { return gather(bootstrap, mine); };
  require_one_node(exchange(name_of_node(*config)));
  require_alike(exchange(introduction(*config)));
  log_as_rank(bootstrap.rank, bootstrap.size);
  std::vector<Cores> cores;
  for (const std::string& text : exchange(available_cores().to_string())) cores.emplace_back(text);
  const int crowd = ranks_per_core(cores);
  std::vector<int> all(static_cast<std::size_t>(bootstrap.size));
  std::iota(all.begin(), all.end(), 0);
  const auto board =
      map_across_processes(bootstrap.rank, all, BoardComm::board_bytes(bootstrap.size), exchange);
  const auto membership = BoardComm::membership_on(*board, Waiting{config->timeout, crowd > 1, {}});
  membership->watch(all, exchange(name_of_process()), board);
  auto comm =
      std::make_shared<BoardComm>("bootstrap", board, all, membership, crowd, std::move(config));
  comm->leave_at_end();
  comm->barrier();
  return comm;
}

}  // namespace coconet::jit
