// Worlds of several nodes: barriers by words that all ranks of a node see and messages to the others, and control messages
// by MPI's collectives, after a barrier has shown that all ranks are there for them.
#include "jit/comm/worlds/mpi_nodes.h"

#include <sched.h>

#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/collectives/groups.h"
#include "jit/comm/collectives/mpi_group.h"
#include "jit/comm/memory/peer_memory.h"

namespace coconet::jit {

namespace {

/// Bytes of a rank that one collective of control messages carries; MPI counts all ranks' in int.
std::size_t longest_piece(int ranks) {
  return (std::size_t{1} << 30) / static_cast<std::size_t>(ranks);
}

}  // namespace

NodesComm::NodesComm(MPI_Comm comm, Nodes nodes, std::unique_ptr<MpiComm> node,
                     std::shared_ptr<MpiLink> link)
    : comm_(comm), nodes_(std::move(nodes)), node_(std::move(node)), link_(std::move(link)) {
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) all.push_back(rank);
  everybody_ = make_barrier(all, barriers_++);
  runs_ = make_barrier(all, barriers_++);
}

std::shared_ptr<Barrier> NodesComm::make_barrier(const std::vector<int>& ranks,
                                                 std::uint64_t number) {
  const std::vector<int>& here = nodes_.beside(rank());
  const std::shared_ptr<PeerMemory> memory = node_->allocate(sizeof(std::uint64_t));
  std::vector<std::uint64_t*> arrivals;
  std::vector<int> far;
  for (const int rank : ranks) {
    const auto found = std::find(here.begin(), here.end(), rank);
    if (found != here.end()) {
      arrivals.push_back(
          reinterpret_cast<std::uint64_t*>(memory->base(static_cast<int>(found - here.begin()))));
    } else {
      arrivals.push_back(link_->arrival(number, rank));
      far.push_back(rank);
    }
  }
  const auto tell = [link = link_, membership = node_->membership(), far = std::move(far),
                     number](std::uint64_t arrival) {
    std::vector<int> present;
    std::copy_if(far.begin(), far.end(), std::back_inserter(present),
                 [&](int rank) { return !membership->has_left(rank); });
    link->tell_arrival(present, number, arrival);
  };
  return std::make_shared<Barrier>(node_->membership(), ranks, std::move(arrivals), memory,
                                   RemoteNotifier{tell, [link = link_] { return link->told(); }});
}

std::shared_ptr<void> NodesComm::share(std::shared_ptr<void>) {
  throw InternalError("ranks of several processes cannot share an object");
}

void NodesComm::require_nobody_failed() const {
  link_->poll();
  membership().require_nobody_failed();
}

void NodesComm::complete(Transfer& transfer, int code, std::string_view call) {
  check_mpi(code, call);
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    require_nobody_failed();
    if (std::chrono::steady_clock::now() - start > config().timeout) {
      const std::string message =
          "rank " + std::to_string(rank()) + " waited in " + std::string(call) +
          " for longer than COCONET_TIMEOUT_S sets, although all ranks had come to it; another "
          "rank is stuck or gone, or the network between the nodes is";
      membership().fail(message);
      throw CommError(message);
    }
    sched_yield();
  }
}

std::vector<std::string> NodesComm::all_gather(std::string_view mine) {
  everybody_->wait("all_gather");
  const auto ranks = static_cast<std::size_t>(size());
  Transfer& transfer = transfers_.emplace_back();
  transfer.lengths.resize(ranks);
  transfer.mine = mine;
  std::uint64_t& own = transfer.lengths[static_cast<std::size_t>(rank())];
  own = mine.size();
  complete(transfer,
           MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, transfer.lengths.data(), 1,
                          MPI_UINT64_T, comm_, &transfer.request),
           "MPI_Iallgather");
  std::vector<std::string> texts(ranks);
  const std::size_t piece = longest_piece(size());
  const std::uint64_t longest = *std::ranges::max_element(transfer.lengths);
  for (std::uint64_t done = 0; done < longest; done += piece) {
    transfer.counts.clear();
    transfer.places.clear();
    int bytes = 0;
    for (const std::uint64_t length : transfer.lengths) {
      transfer.places.push_back(bytes);
      transfer.counts.push_back(
          static_cast<int>(std::min<std::uint64_t>(piece, length - std::min(length, done))));
      bytes += transfer.counts.back();
    }
    transfer.all.resize(static_cast<std::size_t>(bytes));
    complete(transfer,
             MPI_Iallgatherv(transfer.mine.data() + std::min(own, done),
                             transfer.counts[static_cast<std::size_t>(rank())], MPI_CHAR,
                             transfer.all.data(), transfer.counts.data(), transfer.places.data(),
                             MPI_CHAR, comm_, &transfer.request),
             "MPI_Iallgatherv");
    for (std::size_t from = 0; from < ranks; ++from) {
      texts[from].append(transfer.all, static_cast<std::size_t>(transfer.places[from]),
                         static_cast<std::size_t>(transfer.counts[from]));
    }
  }
  transfers_.pop_back();
  return texts;
}

std::string NodesComm::broadcast(std::string_view mine, int root) {
  if (root < 0 || root >= size()) {
    throw InternalError("broadcast from rank " + std::to_string(root) + " of a world of " +
                        std::to_string(size()));
  }
  everybody_->wait("broadcast");
  Transfer& transfer = transfers_.emplace_back();
  transfer.lengths = {mine.size()};
  complete(transfer,
           MPI_Ibcast(transfer.lengths.data(), 1, MPI_UINT64_T, root, comm_, &transfer.request),
           "MPI_Ibcast");
  const std::uint64_t length = transfer.lengths.front();
  if (root == rank()) transfer.all = mine;
  transfer.all.resize(length);
  const std::size_t piece = longest_piece(1);
  for (std::uint64_t done = 0; done < length; done += piece) {
    complete(transfer,
             MPI_Ibcast(transfer.all.data() + done,
                        static_cast<int>(std::min<std::uint64_t>(piece, length - done)), MPI_CHAR,
                        root, comm_, &transfer.request),
             "MPI_Ibcast");
  }
  std::string text = std::move(transfer.all);
  transfers_.pop_back();
  return text;
}

bool NodesComm::any_failed(bool failed) {
  try {
    if (!failed) {
      runs_->wait("run");
      return false;
    }
    runs_->refuse();
  } catch (const Refused&) {
  }
  everybody_->wait("run");  // the refusal stands until all have seen it
  return true;
}

std::shared_ptr<PeerMemory> NodesComm::allocate(std::size_t bytes) {
  return allocate_in_nodes(*this, bytes, [&](Comm& node) { return node.allocate(bytes); });
}

std::unique_ptr<Collectives> NodesComm::collectives(const std::vector<int>& ranks) {
  const std::vector<std::vector<int>> division = agree_on_groups(*this, ranks);
  const std::vector<int>& here = nodes_.beside(rank());
  const bool inside = std::all_of(here.begin(), here.end(), [&](int rank) {
    return nodes_.share(division[static_cast<std::size_t>(rank)]);
  });
  // All ranks find the division here or none does, and those of a node agree on whether its groups are inside.
  const bool known = across_.contains(division);
  Across& across = across_[division];
  if (!known) {
    const std::uint64_t number = barriers_++;
    together(*this, [&] {
      if (!inside) across.barrier = make_barrier(ranks, number);
    });
    check_mpi(MPI_Comm_split(comm_, inside ? MPI_UNDEFINED : ranks.front(),
                             inside ? 0 : across.barrier->position(), &across.comm),
              "MPI_Comm_split");
    if (!inside) MPI_Comm_set_errhandler(across.comm, MPI_ERRORS_RETURN);
  }
  if (!inside) return make_mpi_group(across.comm, across.barrier);
  std::vector<int> places;
  for (const int rank : ranks)
    places.push_back(static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin()));
  return node_->collectives(places);
}

}  // namespace coconet::jit
