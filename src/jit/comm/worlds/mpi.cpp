// The MPI world: finds which ranks share memory, and makes of them a world of one node or of several.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/collectives/mpi_group.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/mpi_comm.h"
#include "jit/comm/worlds/mpi_link.h"
#include "jit/comm/worlds/mpi_nodes.h"
#include "jit/comm/worlds/mpi_threads.h"
#include "jit/comm/worlds/nodes.h"

namespace coconet::jit {

namespace {

/// The ranks that can share memory: those of one machine, and with COCONET_HOST_ID those of them that have the same.
MPI_Comm split_by_node(MPI_Comm world, int rank) {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
            "MPI_Comm_split_type");
  const std::vector<std::string> ids = gather_by_mpi(machine, config().host_id);
  const auto first = std::find(ids.begin(), ids.end(), config().host_id);
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(machine, static_cast<int>(first - ids.begin()), rank, &node),
            "MPI_Comm_split");
  MPI_Comm_free(&machine);
  MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
  return node;
}

/// What this rank's node is called in messages.
std::string name_of_node() {
  if (!config().host_id.empty()) return config().host_id;
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return {name.data(), static_cast<std::size_t>(length)};
}

Nodes find_nodes(MPI_Comm world, int first) {
  std::vector<int> firsts;
  std::vector<std::string> names;
  for (const std::string& text :
       gather_by_mpi(world, std::to_string(first) + " " + name_of_node())) {
    const std::size_t blank = text.find(' ');
    firsts.push_back(std::stoi(text.substr(0, blank)));
    names.push_back(text.substr(blank + 1));
  }
  return {firsts, names};
}

/// A world's comm, and the membership of its ranks.
struct Connected {
  std::shared_ptr<Comm> comm;
  std::shared_ptr<Membership> membership;
  std::shared_ptr<MpiLink> link;  ///< null in a world of one node
};

/// Every rank's status as this one sees it: on the node's board, or kept by the link.
std::vector<RankStatus*> statuses_of(const Nodes& nodes, int rank, int ranks,
                                     const PeerMemory& board, MpiLink* link) {
  const std::vector<int>& here = nodes.beside(rank);
  std::vector<RankStatus*> statuses;
  for (int other = 0; other < ranks; ++other) {
    const auto found = std::find(here.begin(), here.end(), other);
    const int place = static_cast<int>(found - here.begin());
    statuses.push_back(found == here.end() ? link->status_of(other)
                                           : BoardComm::status_at(board.base(place)));
  }
  return statuses;
}

std::vector<int> without(int ranks, const std::vector<int>& some) {
  std::vector<int> others;
  for (int rank = 0; rank < ranks; ++rank) {
    if (std::find(some.begin(), some.end(), rank) == some.end()) others.push_back(rank);
  }
  return others;
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

/// Throws on every rank when `body` does on some.
void together_by_mpi(MPI_Comm world, const std::function<void()>& body) {
  std::string mine;
  try {
    body();
  } catch (const Error& error) {
    mine = error.what();
  }
  const std::vector<std::string> all = gather_by_mpi(world, mine);
  if (!mine.empty()) throw CommError(mine);
  for (const std::string& other : all) {
    if (!other.empty()) throw CommError(other);
  }
}

Connected connect() {
  const MPI_Comm world = duplicate(MPI_COMM_WORLD);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  const MPI_Comm node = split_by_node(world, rank);
  const Exchange exchange = [&](std::string_view mine) { return gather_by_mpi(node, mine); };
  const Nodes nodes = find_nodes(world, std::stoi(exchange(std::to_string(rank)).front()));
  const std::vector<int>& here = nodes.beside(rank);

  std::vector<Cores> cores;
  for (const std::string& text : exchange(available_cores().to_string())) cores.emplace_back(text);
  Connected made;
  std::unique_ptr<MpiComm> of_node;
  if (nodes.count() > 1)
    made.link = std::make_shared<MpiLink>(duplicate(world), without(ranks, here));
  together_by_mpi(world, [&] {
    int place = 0;
    MPI_Comm_rank(node, &place);
    const std::shared_ptr<PeerMemory> board =
        map_across_processes(place, here, BoardComm::board_bytes, exchange);
    const int crowd = ranks_per_core(cores);
    // MPI moves on only inside its calls, and another rank may still wait for what this one has sent.
    const auto probe = [world] {
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found, MPI_STATUS_IGNORE);
    };
    const auto poll = [link = made.link] { link->poll(); };
    const auto tell = [link = made.link](const RankStatus& status) { link->tell_state(status); };
    Waiting waiting{config().timeout, crowd > 1,
                    made.link ? std::function<void()>(poll) : std::function<void()>(probe)};
    if (mpi_thread_level() < MPI_THREAD_SERIALIZED) waiting.require_thread = require_mpi_thread;
    made.membership = std::make_shared<Membership>(
        rank, statuses_of(nodes, rank, ranks, *board, made.link.get()), waiting,
        made.link ? std::function<void(const RankStatus&)>(tell) : nullptr);
    of_node = std::make_unique<MpiComm>(node, board, here, made.membership, crowd);
    if (made.link) {
      made.comm = std::make_shared<NodesComm>(world, nodes, std::move(of_node), made.link);
    } else {
      made.comm = std::move(of_node);
    }
  });
  return made;
}

/// MPI calls this first of all when it is finalised, by us or by the application: ranks that still
/// wait for this one learn that it will not come.
int leave_world(MPI_Comm, int, void* world, void*) {
  const std::unique_ptr<Connected> owned(static_cast<Connected*>(world));
  owned->membership->leave();
  if (owned->link) owned->link->close();
  return MPI_SUCCESS;
}

void leave_when_finalized(const Connected& world) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_world, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, std::make_unique<Connected>(world).release());
}

void start_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw CommError("World::mpi was called after MPI_Finalize; MPI cannot be started again");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    require_mpi_thread();
    return;
  }
  int provided = 0;  // less is served from this thread only
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS)
    throw CommError("MPI_Init_thread failed with code " + std::to_string(code));
  std::atexit([] {
    int done = 0;
    MPI_Finalized(&done);
    if (done == 0) MPI_Finalize();
  });
}

}  // namespace

// One world per process: communicators are scarce, and to free one is collective.
std::shared_ptr<Comm> make_mpi_comm() {
  static std::mutex mutex;
  static Connected world;
  const std::lock_guard lock(mutex);
  start_mpi();
  if (!world.comm) {
    world = connect();
    leave_when_finalized(world);
  }
  return world.comm;
}

MpiFacts mpi_facts() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), length);
  return {true, version.substr(0, version.find_first_of(",\n"))};
}

}  // namespace coconet::jit
