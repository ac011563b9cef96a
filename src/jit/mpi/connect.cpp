#include "jit/mpi/connect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "coconet/error.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/board_comm.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/introduction.h"
#include "jit/config/log.h"
#include "jit/mpi/assembly.h"
#include "jit/mpi/collectives.h"
#include "jit/mpi/door.h"
#include "jit/mpi/pulse.h"
#include "jit/mpi/threads.h"

namespace coconet::jit {

namespace {

/// The processes of one node, whose long library collectives are MPI's.
class MpiProcessComm final : public BoardComm {
 public:
  /// `comm`, one of `comms`, holds the ranks of `board` in its order; the rest is BoardComm's.
  MpiProcessComm(MPI_Comm comm, std::shared_ptr<OwnComms> comms, std::shared_ptr<PeerMemory> board,
                 std::vector<int> numbers, std::shared_ptr<Membership> membership,
                 int ranks_per_core, std::shared_ptr<const Config> config)
      : BoardComm("mpi", std::move(board), std::move(numbers), std::move(membership),
                  ranks_per_core, std::move(config)),
        comm_(comm),
        comms_(std::move(comms)) {}

 private:
  [[nodiscard]] std::shared_ptr<Collectives> make_large(
      const std::vector<int>& ranks, const std::shared_ptr<Barrier>& barrier) override {
    return make_mpi_collectives(comms_->split(comm_, ranks.front(), barrier->position()), barrier);
  }

  MPI_Comm comm_;
  std::shared_ptr<OwnComms> comms_;
};

/// What ranks tell each other of themselves when they meet.
struct Description {
  std::string introduction, node, process, cores, pulse;

  /// Its parts have no zeros.
  [[nodiscard]] std::string to_string() const {
    const std::array parts{introduction, node, process, cores, pulse};
    return fmt::format("{}", fmt::join(parts, zero));
  }
  explicit Description(std::string_view text) {
    for (std::string* part : {&introduction, &node, &process, &cores, &pulse}) {
      const std::size_t end = std::min(text.find(zero), text.size());
      *part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  Description() = default;

 private:
  static constexpr std::string_view zero{"\0", 1};
};

/// The nodes of ranks that can share memory: those with equal names are on one.
Nodes find_nodes(const Indexed<Description>& all) {
  Indexed<int> firsts;
  Indexed<std::string> names;
  for (const Description& one : all) {
    const auto first = std::ranges::find(all, one.node, &Description::node);
    firsts.push_back(static_cast<int>(first - all.begin()));
    names.push_back(one.node.substr(0, one.node.find(' ')));
  }
  return {firsts, names};
}

/// Memory of `bytes` for each rank of this rank's node, `here`, which `use` gets before any rank
/// goes on. All ranks of `assembly` take part as long as any node exchanges texts for it. Throws
/// CommError on all where a node has no memory.
void map_in_nodes(Assembly& assembly, const std::vector<int>& here, std::size_t bytes,
                  const std::function<void(std::shared_ptr<PeerMemory>)>& use) {
  constexpr char exchanges = '+', is_done = '.';
  std::string mine;
  const auto place = std::ranges::find(here, assembly.rank()) - here.begin();
  try {
    use(map_across_processes(static_cast<int>(place), here, bytes, [&](std::string_view text) {
      const Indexed<std::string> all = assembly.gather(exchanges + std::string(text));
      std::vector<std::string> texts;
      for (const int rank : here) texts.push_back(all[rank].substr(1));
      return texts;
    }));
  } catch (const Error& error) {
    if (assembly.membership()->is_over()) throw;
    mine = error.what();
  }
  for (;;) {
    const Indexed<std::string> all = assembly.gather(is_done + mine);
    const auto is_last = [](const std::string& text) { return text.front() == is_done; };
    if (!std::ranges::all_of(all, is_last)) continue;
    const auto failed = std::ranges::find_if(all, [](const auto& text) { return text.size() > 1; });
    if (failed == all.end()) return;
    throw CommError(mine.empty() ? failed->substr(1) : mine);
  }
}

/// Of all worlds of this process.
std::mutex memberships_mutex;
std::vector<std::weak_ptr<Membership>> memberships;
/// Of worlds that could not be made, whose ranks the process's end must not await: made before the
/// handler of that is registered, and so gone after it.
std::vector<std::shared_ptr<Membership>> failed_memberships;

void remember(const std::shared_ptr<Membership>& membership) {
  const std::lock_guard lock(memberships_mutex);
  std::erase_if(memberships, [](const auto& one) { return one.expired(); });
  memberships.push_back(membership);
}

/// How `membership` asks other nodes, and tells them at once whose process of `here` has ended
/// without a word: on the thread of its watch.
FarRanks far_ranks(const std::shared_ptr<Pulse>& pulse, Membership* membership,
                   const Indexed<int>& here) {
  static constexpr int times = 5;  // as datagrams get lost
  const auto all = static_cast<std::uint64_t>(membership->size());
  const auto answer = [=, told = std::map<int, int>{}]() mutable {
    for (const Pulse::End& end : pulse->answer()) {
      const int rank = end.rank < all ? static_cast<int>(end.rank) : -1;
      if (rank >= 0 && std::ranges::find(here, rank) == here.end())
        membership->take_end(rank, end.status);
    }
    for (int place = 0; place < here.count(); ++place) {
      const int rank = here[place];
      if (!membership->is_lost(rank) || membership->has_left(rank)) continue;
      if (membership->has_said_why(rank)) continue;
      if (told[rank]++ < times) pulse->tell({static_cast<std::uint64_t>(rank), {}});
    }
  };
  return {
      .answer = answer,
      .find_silent = [pulse, within = time_to_answer(
                                 membership->waiting().timeout)] { return pulse->silent(within); },
      .has_answered = [pulse](int rank) { return pulse->has_answered(rank); },
      .tell_end =
          [pulse, own = static_cast<std::uint64_t>(membership->rank())](const RankStatus& status) {
            for (int time = 0; time < times; ++time) pulse->tell({own, status});
          }};
}

/// What the ranks of an assembly know of each other once they share memory.
struct Introduced {
  Nodes nodes;
  std::shared_ptr<PeerMemory> board;
  int crowd = 1;  ///< ranks of this node for each of its cores
};

/// The membership of `assembly`'s ranks, of which those of this node, `here`, share `board`; others
/// are reached by `link` and `pulse`.
std::shared_ptr<Membership> share_membership(const Assembly& assembly, const Waiting& waiting,
                                             const Indexed<int>& here,
                                             const Indexed<std::string>& processes,
                                             const std::shared_ptr<PeerMemory>& board,
                                             const std::shared_ptr<MpiLink>& link,
                                             const std::shared_ptr<Pulse>& pulse) {
  std::vector<RankStatus*> statuses(assembly.ranks());
  std::vector<std::uint64_t*> tables(assembly.ranks());
  std::vector<std::string> processes_here;
  for (int place = 0; place < here.count(); ++place) {
    statuses[here[place]] = BoardComm::status_at(board->base(place));
    tables[here[place]] = BoardComm::notices_at(board->base(place));
    processes_here.push_back(processes[here[place]]);
  }
  for (int rank = 0; rank < assembly.ranks(); ++rank) {
    if (statuses[rank] == nullptr) statuses[rank] = link->status_of(rank);
  }
  auto membership = std::make_shared<Membership>(assembly.rank(), std::move(statuses),
                                                 std::move(tables), waiting);
  membership->watch(here, processes_here, board);
  if (link) membership->listen(far_ranks(pulse, membership.get(), here));
  remember(membership);
  return membership;
}

/// Collective over `assembly`: the ranks of its communicator share memory in their nodes from then
/// on, and have one membership.
Introduced introduce(Assembly& assembly, const Config& config, std::shared_ptr<MpiLink>& link) {
  const int rank = assembly.rank(), ranks = assembly.ranks();
  const auto pulse = std::make_shared<Pulse>();
  Description mine;
  mine.introduction = introduction(config);
  mine.node = name_of_node(config);
  mine.process = name_of_process();
  mine.cores = available_cores().to_string();
  mine.pulse = pulse->address();
  Indexed<Description> all;
  std::vector<std::string> introductions;
  Indexed<std::string> processes;
  for (const std::string& text : assembly.gather(mine.to_string())) {
    all.push_back(Description(text));
    introductions.push_back(all.back().introduction);
    processes.push_back(all.back().process);
  }
  require_alike(introductions);
  Introduced made{find_nodes(all), nullptr};
  const Indexed<int> here = made.nodes.beside(rank);
  assembly.watch(here, processes);
  std::vector<Cores> cores;
  for (const int one : here) cores.emplace_back(all[one].cores);
  made.crowd = ranks_per_core(cores);
  std::vector<int> far;
  for (int other = 0; other < ranks; ++other) {
    if (made.nodes.share({rank, other})) continue;
    far.push_back(other);
    pulse->add(other, all[other].pulse);
  }
  if (!far.empty()) link = std::make_shared<MpiLink>(far);

  const Waiting waiting{config.timeout, made.crowd > 1, require_mpi_thread};
  // Before any rank can fail elsewhere: who still meets the others then hears why it does.
  map_in_nodes(assembly, here, BoardComm::board_bytes(ranks), [&](auto board) {
    made.board = std::move(board);
    assembly.join(share_membership(assembly, waiting, here, processes, made.board, link, pulse));
  });
  return made;
}

/// Collective over `communicator`: what ranks talk by, once they can tell each other what goes
/// wrong.
void finish(Connected& made, MPI_Comm communicator, Introduced introduced,
            const std::shared_ptr<Membership>& membership,
            const std::shared_ptr<const Config>& config) {
  const Nodes& nodes = introduced.nodes;
  const Indexed<int> here = nodes.beside(membership->rank());
  made.comms = std::make_shared<OwnComms>(membership);
  const MPI_Comm world = made.comms->split(communicator, 0, 0);
  if (const auto link = made.link) {
    link->open(made.comms->split(world, 0, 0), *membership);
    membership->exchange_notices(
        {[link] { link->poll(); },
         [link](int of, const RankStatus& status) { link->tell_state(of, status); }});
  } else {
    // MPI moves on only inside its calls, and another rank may still wait for what this one sent.
    membership->exchange_notices({[world, membership = membership.get()] {
                                    int found = 0;
                                    call_mpi(*membership, "MPI_Iprobe", [&] {
                                      return MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found,
                                                        MPI_STATUS_IGNORE);
                                    });
                                  },
                                  {}});
  }
  const MPI_Comm node = made.link ? made.comms->split(world, here[0], 0) : world;
  auto of_node = std::make_unique<MpiProcessComm>(node, made.comms, std::move(introduced.board),
                                                  here, membership, introduced.crowd, config);
  if (made.link) {
    made.comm = make_nodes_comm(world, made.comms, nodes, std::move(of_node), made.link);
  } else {
    made.comm = std::move(of_node);
  }
}

}  // namespace

Connected connect(MPI_Comm communicator, const std::shared_ptr<const Config>& config) {
  Connected made;
  Assembly assembly(communicator, config->timeout);
  remember(assembly.membership());
  try {
    assembly.meet();
    log_as_rank(assembly.rank(), assembly.ranks());
    Introduced introduced = introduce(assembly, *config, made.link);
    finish(made, communicator, std::move(introduced), assembly.membership(), config);
  } catch (const std::exception& error) {
    assembly.membership()->fail(error.what());
    failed_memberships.push_back(assembly.membership());
    throw;
  }
  return made;
}

std::vector<std::shared_ptr<Membership>> living_memberships() {
  const std::lock_guard lock(memberships_mutex);
  std::vector<std::shared_ptr<Membership>> living;
  for (const auto& one : memberships) {
    if (auto membership = one.lock()) living.push_back(std::move(membership));
  }
  return living;
}

}  // namespace coconet::jit
