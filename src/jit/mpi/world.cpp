// The MPI world: finds which ranks share memory, and makes of them a world of one node or of
// several.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "coconet/error.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/introduction.h"
#include "jit/comm/worlds/process_comm.h"
#include "jit/config/configure.h"
#include "jit/config/end_process.h"
#include "jit/config/log.h"
#include "jit/config/own_process.h"
#include "jit/mpi/assembly.h"
#include "jit/mpi/collectives.h"
#include "jit/mpi/door.h"
#include "jit/mpi/launched.h"
#include "jit/mpi/link.h"
#include "jit/mpi/nodes.h"
#include "jit/mpi/pulse.h"
#include "jit/mpi/threads.h"
#include "jit/mpi/world.h"

namespace coconet::jit {

namespace {

/// The processes of one node, whose long library collectives are MPI's.
class MpiProcessComm final : public ProcessComm {
 public:
  /// `comm`, one of `comms`, holds the ranks of `board` in its order; the rest is ProcessComm's.
  MpiProcessComm(MPI_Comm comm, std::shared_ptr<OwnComms> comms, std::shared_ptr<PeerMemory> board,
                 std::vector<int> numbers, std::shared_ptr<Membership> membership,
                 int ranks_per_core, std::shared_ptr<const Config> config)
      : ProcessComm("mpi", std::move(board), std::move(numbers), std::move(membership),
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

/// A world's comm, and its link to other nodes; null in a world of one node.
struct Connected {
  std::shared_ptr<Comm> comm;
  std::shared_ptr<MpiLink> link;
  std::shared_ptr<OwnComms> comms;
};

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
  constexpr int times = 5;  // as datagrams get lost
  const auto answer = [=, told = std::map<int, int>{}]() mutable {
    for (const int rank : pulse->answer()) {
      if (rank >= 0 && rank < membership->size() && std::ranges::find(here, rank) == here.end())
        membership->lose(rank);
    }
    for (int place = 0; place < here.count(); ++place) {
      const int rank = here[place];
      if (!membership->is_lost(rank) || membership->has_left(rank)) continue;
      if (membership->has_said_why(rank)) continue;
      if (told[rank]++ < times) pulse->tell_end(rank);
    }
  };
  return {answer, [pulse, within = time_to_answer(membership->waiting().timeout)] {
            return pulse->silent(within);
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

/// Collective over `communicator`, which is not used from then on.
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

/// Ranks that still wait for this one learn that it will not come.
void leave(const Connected& world) {
  world.comm->membership()->leave();
  if (world.link) world.link->close();
}

/// A world as its communicator keeps it.
using Kept = std::shared_ptr<const Connected>;

/// MPI calls this when the communicator is freed.
int leave_freed(MPI_Comm, int, void* kept, void*) {
  Kept owned = std::move(*std::unique_ptr<Kept>(static_cast<Kept*>(kept)));
  leave(*owned);
  // An executable may outlive it, and a rank that is gone takes no part.
  const bool frees = owned->comm.use_count() == 1 && !owned->comm->membership()->is_over();
  const std::shared_ptr<OwnComms> comms = owned->comms;
  owned.reset();
  try {
    if (frees) comms->free();
  } catch (const CommError&) {
    return MPI_ERR_OTHER;
  }
  return MPI_SUCCESS;
}

/// Worlds whose communicators have not been freed.
std::vector<std::weak_ptr<const Connected>> open_worlds;

/// MPI calls this first of all when it is finalised, by us or by the application.
int leave_all(MPI_Comm, int, void*, void*) {
  for (const auto& one : open_worlds) {
    if (const Kept world = one.lock()) leave(*world);
  }
  open_worlds.clear();
  return MPI_SUCCESS;
}

void leave_when_finalized(const Kept& world) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_all, &made, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, made, nullptr);
    return made;
  }();
  (void)key;
  std::erase_if(open_worlds, [](const auto& one) { return one.expired(); });
  open_worlds.push_back(world);
}

/// Of the worlds of this process those that its end may wait for.
std::vector<std::shared_ptr<Membership>> living_memberships() {
  const std::lock_guard lock(memberships_mutex);
  std::vector<std::shared_ptr<Membership>> living;
  for (const auto& one : memberships) {
    if (auto membership = one.lock()) living.push_back(std::move(membership));
  }
  return living;
}

/// Ends MPI as the process exits with `status`. MPI waits for all ranks there: where one may never
/// come, this process does not wait for long, and its launcher then ends the others.
void finalize(int status) {
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) return;
  const auto worlds = living_memberships();
  if (std::ranges::any_of(worlds, [](const auto& one) { return one->is_over(); })) {
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      end_process(status != 0 ? status : EXIT_FAILURE);
    }).detach();
  }
  // A rank that still runs may come to its end when it likes. Without a world there is nobody whose
  // end would not be the end of its process.
  const auto largest = std::ranges::max_element(worlds, {}, &Membership::size);
  std::optional<Membership::BlockingCall> guard;
  if (largest != worlds.end()) guard.emplace(**largest, "MPI_Finalize", std::chrono::years(1));
  MPI_Finalize();
}

void start_mpi(std::chrono::milliseconds timeout) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw CommError("World::mpi was called after MPI_Finalize; MPI cannot be started again");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    int provided = 0;  // less is served from this thread only
    const auto launched = watch_launched(timeout);
    // Launchers may take long to start a job.
    const Membership::BlockingCall guard(*launched, "MPI_Init_thread", std::chrono::minutes(1));
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS)
      throw CommError(fmt::format("MPI_Init_thread failed with code {}", code));
    // Not as its children exit, which have forked.
    static const OwnProcess starter;
    on_exit(
        [](int status, void*) {
          if (starter.is_this()) finalize(status);
        },
        nullptr);
  }
  require_mpi_thread();
}

/// For communicators of the application's, which has started MPI.
void require_started() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0)
    throw CommError("World::mpi was given a communicator outside of MPI_Init and MPI_Finalize");
  require_mpi_thread();
}

/// The world that `communicator` keeps, if it has one; made with the same options.
std::shared_ptr<Comm> find_kept(MPI_Comm communicator, int key, const Config& config) {
  void* kept = nullptr;
  int is_there = 0;
  check_mpi(MPI_Comm_get_attr(communicator, key, static_cast<void*>(&kept), &is_there),
            "MPI_Comm_get_attr");
  if (is_there == 0) return nullptr;
  const std::shared_ptr<Comm>& comm = (*static_cast<Kept*>(kept))->comm;
  Config alike = comm->config();
  alike.log_level = config.log_level;  // which is the process's
  if (alike == config) return comm;
  throw CommError(
      "World::mpi was given other Options than before for the same communicator, which has one "
      "world; give them at its first call, or to compile");
}

}  // namespace

// One world for a communicator: they are scarce, and to free one is collective.
std::shared_ptr<Comm> make_mpi_comm(const Options& options) {
  start_mpi(configure(options)->timeout);
  const MPI_Comm world = MPI_COMM_WORLD;
  return make_mpi_comm_of(&world, sizeof world, options);
}

std::shared_ptr<Comm> make_mpi_comm_of(const void* handle, std::size_t bytes,
                                       const Options& options) {
  static std::mutex mutex;
  static int key = MPI_KEYVAL_INVALID;
  MPI_Comm communicator = MPI_COMM_NULL;
  if (bytes != sizeof communicator) {
    throw CommError(fmt::format(
        "World::mpi was given a communicator of {} bytes, and this library's MPI has {}; build the "
        "application with the MPI that the library was built with",
        bytes, sizeof communicator));
  }
  std::memcpy(&communicator, handle, bytes);
  const std::lock_guard lock(mutex);
  require_started();
  if (communicator == MPI_COMM_NULL) {
    throw CommError(
        "World::mpi was given MPI_COMM_NULL; only ranks that are in a communicator make its world");
  }
  int is_inter = 0;
  check_mpi(MPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) {
    throw CommError(
        "World::mpi was given an intercommunicator; merge its groups by MPI_Intercomm_merge");
  }
  const std::shared_ptr<const Config> config = configure(options);
  // MPI keeps the world with the communicator.
  if (key == MPI_KEYVAL_INVALID)
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_freed, &key, nullptr);
  if (auto kept = find_kept(communicator, key, *config)) return kept;
  const Kept world = std::make_shared<const Connected>(connect(communicator, config));
  check_mpi(MPI_Comm_set_attr(communicator, key, std::make_unique<Kept>(world).release()),
            "MPI_Comm_set_attr");
  leave_when_finalized(world);
  return world->comm;
}

MpiFacts mpi_facts() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), length);
  return {true, version.substr(0, version.find_first_of(",\n"))};
}

}  // namespace coconet::jit
