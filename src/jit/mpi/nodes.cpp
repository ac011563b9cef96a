// Worlds of several nodes: barriers by words that all ranks of a node see and messages to the
// others, and control messages by MPI's collectives, after a barrier has shown that all ranks are
// there for them.
#include "jit/mpi/nodes.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <list>
#include <map>
#include <numeric>

#include "jit/comm/barrier/wait_until.h"
#include "jit/mpi/collectives.h"

namespace coconet::jit {

Indexed<std::string> gather_by_mpi(MPI_Comm comm, Membership& membership, std::string_view mine,
                                   Transfer& transfer,
                                   const std::function<void(std::string_view call)>& wait) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  std::string& own = transfer.mine;
  std::string& all = transfer.all;
  Indexed<std::uint64_t>& lengths = transfer.lengths;
  Indexed<int>& counts = transfer.counts;
  Indexed<int>& places = transfer.places;
  own = mine;
  lengths = Indexed<std::uint64_t>(ranks);
  lengths[rank] = mine.size();
  call_mpi(membership, "MPI_Iallgather", [&] {
    return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, lengths.data(), 1, MPI_UINT64_T, comm,
                          &transfer.request);
  });
  wait("MPI_Iallgather");
  Indexed<std::string> texts(ranks);
  // MPI counts the bytes of all ranks in int.
  const std::uint64_t piece = (std::uint64_t{1} << 30) / ranks;
  const std::uint64_t longest = *std::ranges::max_element(lengths);
  for (std::uint64_t done = 0; done < longest; done += piece) {
    counts.clear();
    for (const std::uint64_t length : lengths)
      counts.push_back(static_cast<int>(std::min(piece, length - std::min(length, done))));
    places = Indexed<int>(ranks);
    std::partial_sum(counts.begin(), counts.end() - 1, places.begin() + 1);
    all.resize(places.back() + counts.back());
    call_mpi(membership, "MPI_Iallgatherv", [&] {
      return MPI_Iallgatherv(own.data() + std::min<std::uint64_t>(own.size(), done), counts[rank],
                             MPI_CHAR, all.data(), counts.data(), places.data(), MPI_CHAR, comm,
                             &transfer.request);
    });
    wait("MPI_Iallgatherv");
    for (int from = 0; from < ranks; ++from) texts[from].append(all, places[from], counts[from]);
  }
  return texts;
}

namespace {

/// The place of `rank` among `ranks`, or -1.
int place_among(const std::vector<int>& ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

class NodesComm final : public Comm {
 public:
  NodesComm(MPI_Comm comm, std::shared_ptr<OwnComms> comms, Nodes nodes,
            std::unique_ptr<BoardComm> node, std::shared_ptr<MpiLink> link)
      : Comm("mpi", node->number_of(node->rank()), std::move(nodes), node->membership(),
             node->ranks_per_core(), node->shared_config()),
        comm_(comm),
        comms_(std::move(comms)),
        node_(std::move(node)),
        link_(std::move(link)) {
    std::vector<int> all(size());
    std::iota(all.begin(), all.end(), 0);
    everybody_ = make_barrier(all, barriers_++);
    runs_ = make_barrier(all, barriers_++);
  }

  [[nodiscard]] Comm& node() override { return *node_; }

  void require_nobody_failed() override {
    link_->poll();
    membership_->require_nobody_failed();
  }

  bool any_failed(bool failed, std::uint64_t given) override {
    try {
      if (!failed) {
        runs_->wait("run", {}, given);
        return false;
      }
      runs_->refuse();
    } catch (const Refused&) {
    }
    everybody_->wait("run");  // the refusal stands until all have seen it
    return true;
  }

  std::shared_ptr<PeerMemory> allocate(std::size_t bytes) override {
    return allocate_in_nodes(*this, bytes, [&](Comm& node) { return node.allocate(bytes); });
  }

 private:
  std::vector<std::string> gather(std::string_view mine, std::string_view call) override {
    everybody_->wait(call);
    Transfer& transfer = transfers_.emplace_back();
    auto texts = gather_by_mpi(comm_, *membership_, mine, transfer,
                               [&](std::string_view part) { complete(transfer, part); });
    transfers_.pop_back();
    return texts;
  }

  std::shared_ptr<Collectives> make_collectives(const std::vector<int>& ranks,
                                                const Division& division) override {
    const std::vector<int>& here = nodes_.beside(rank_);
    const bool inside =
        std::ranges::all_of(here, [&](int rank) { return nodes_.share(division[rank]); });
    // All ranks find the division here or none does, and those of a node agree on whether its
    // groups are inside.
    auto found = across_.find(division);
    if (found == across_.end()) {
      const std::uint64_t number = barriers_++;
      std::shared_ptr<Barrier> barrier;
      together(*this, [&] {
        if (!inside) barrier = make_barrier(ranks, number);
      });
      const MPI_Comm split = comms_->split(comm_, inside ? MPI_UNDEFINED : ranks.front(),
                                           inside ? 0 : barrier->position());
      found =
          across_.emplace(division, inside ? nullptr : make_mpi_collectives(split, barrier)).first;
    }
    if (!inside) return found->second;
    std::vector<int> places;
    for (const int rank : ranks) places.push_back(place_among(here, rank));
    return node_->collectives(places);
  }

  /// Collective over this rank's node, in whose nodes the ranks make as many barriers.
  std::shared_ptr<Barrier> make_barrier(const std::vector<int>& ranks, std::uint64_t number) {
    const std::shared_ptr<PeerMemory> memory = node_->allocate(sizeof(std::uint64_t));
    std::vector<std::uint64_t*> arrivals;
    std::vector<int> far;
    for (const int rank : ranks) {
      const int place = place_among(nodes_.beside(rank_), rank);
      arrivals.push_back(place >= 0 ? reinterpret_cast<std::uint64_t*>(memory->base(place))
                                    : link_->arrival(number, rank));
      if (place < 0) far.push_back(rank);
    }
    const auto tell = [link = link_, membership = membership_, far = std::move(far),
                       number](std::uint64_t arrival) {
      std::vector<int> present;
      std::ranges::copy_if(far, std::back_inserter(present),
                           [&](int rank) { return !membership->has_left(rank); });
      link->tell_arrival(present, number, arrival);
    };
    return std::make_shared<Barrier>(membership_, ranks, std::move(arrivals), memory,
                                     RemoteNotifier{tell, [link = link_] { return link->told(); }});
  }

  /// Waits for `transfer`, which MPI's `call` has begun.
  void complete(Transfer& transfer, std::string_view call) {
    const auto start = std::chrono::steady_clock::now();
    bool is_late = false;
    const bool has_come =
        wait_until([&] { return is_done(*membership_, transfer.request); },
                   [&] {
                     is_late = std::chrono::steady_clock::now() - start > config().timeout;
                     return is_late || membership_->is_over();
                   },
                   [&] {
                     link_->poll();
                     sched_yield();
                   });
    if (has_come) return;
    require_nobody_failed();
    std::vector<int> others;
    for (int other = 0; other < size(); ++other) {
      if (other != rank()) others.push_back(other);
    }
    membership_->give_up(
        {fmt::format("in {}", call), std::move(others),
         "for longer than COCONET_TIMEOUT_S sets, although all ranks had come to it; one of them "
         "is stuck, or the network between the nodes is",
         is_late});
  }

  MPI_Comm comm_;
  std::shared_ptr<OwnComms> comms_;
  std::unique_ptr<BoardComm> node_;
  std::shared_ptr<MpiLink> link_;
  std::uint64_t barriers_ = 0;     ///< made so far, of groups too
  std::shared_ptr<Barrier> runs_;  ///< of `any_failed`
  std::list<Transfer> transfers_;  ///< none but those that were given up: MPI may still write there
  /// This rank's in divisions of the world; null where its node is divided by itself.
  std::map<Division, std::shared_ptr<Collectives>> across_;
};

}  // namespace

std::shared_ptr<Comm> make_nodes_comm(MPI_Comm comm, std::shared_ptr<OwnComms> comms, Nodes nodes,
                                      std::unique_ptr<BoardComm> node,
                                      std::shared_ptr<MpiLink> link) {
  return std::make_shared<NodesComm>(comm, std::move(comms), std::move(nodes), std::move(node),
                                     std::move(link));
}

}  // namespace coconet::jit
