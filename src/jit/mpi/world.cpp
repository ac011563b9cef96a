// The MPI world: finds which ranks share memory, and makes of them a world of one node or of
// several.
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "coconet/error.h"
#include "jit/comm/memory/peer_memory.h"
#include "jit/comm/worlds/cores.h"
#include "jit/comm/worlds/introduction.h"
#include "jit/comm/worlds/process_comm.h"
#include "jit/config/configure.h"
#include "jit/config/log.h"
#include "jit/config/own_process.h"
#include "jit/mpi/collectives.h"
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

/// Every rank's text, by rank of `comm`: for as long as there is no way to wait with a deadline.
Indexed<std::string> gather_and_wait(MPI_Comm comm, std::string_view mine) {
  Transfer transfer;
  return gather_by_mpi(comm, mine, transfer, [&](std::string_view call) {
    check_mpi(MPI_Wait(&transfer.request, MPI_STATUS_IGNORE), call);
  });
}

/// Ranks that can share memory: those of one machine, and among them those with equal
/// COCONET_HOST_ID, `id`.
MPI_Comm split_by_node(OwnComms& comms, MPI_Comm world, int rank, const std::string& id) {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
            "MPI_Comm_split_type");
  const Indexed<std::string> ids = gather_and_wait(machine, id);
  const auto first = std::ranges::find(ids, id);
  const MPI_Comm node = comms.split(machine, static_cast<int>(first - ids.begin()), rank);
  MPI_Comm_free(&machine);
  return node;
}

/// What this rank's node is called in messages.
std::string name_of_node(const Config& config) {
  if (!config.host_id.empty()) return config.host_id;
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return {name.data(), static_cast<std::size_t>(length)};
}

Nodes find_nodes(MPI_Comm world, const std::string& first, const std::string& name) {
  Indexed<int> firsts;
  for (const std::string& text : gather_and_wait(world, first)) firsts.push_back(std::stoi(text));
  return {firsts, gather_and_wait(world, name)};
}

/// Throws on every rank when `body` does on some.
void together_by_mpi(MPI_Comm world, const std::function<void()>& body) {
  std::string mine;
  try {
    body();
  } catch (const Error& error) {
    mine = error.what();
  }
  const Indexed<std::string> all = gather_and_wait(world, mine);
  if (!mine.empty()) throw CommError(mine);
  for (const std::string& other : all) {
    if (!other.empty()) throw CommError(other);
  }
}

/// A world's comm, and its link to other nodes; null in a world of one node.
struct Connected {
  std::shared_ptr<Comm> comm;
  std::shared_ptr<MpiLink> link;
  std::shared_ptr<OwnComms> comms = std::make_shared<OwnComms>();
};

/// Whether `request` ends in time.
bool ends_within(MPI_Request& request, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Of the messages of ranks that have given up waiting: the largest tag that every MPI has.
constexpr int gave_up = 32767;

/// The ranks that do not answer within a second: all that wait call this at about the same time.
std::vector<int> find_missing(MPI_Comm communicator) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  std::vector<int> missing;
  std::vector<MPI_Request> sent(static_cast<std::size_t>(ranks), MPI_REQUEST_NULL), got = sent;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    MPI_Isend(nullptr, 0, MPI_BYTE, other, gave_up, communicator, &sent[other]);
    MPI_Irecv(nullptr, 0, MPI_BYTE, other, gave_up, communicator, &got[other]);
  }
  for (int other = 0; other < ranks; ++other) {
    if (!ends_within(got[other], std::chrono::seconds(missing.empty() ? 1 : 0)))
      missing.push_back(other);
  }
  return missing;
}

/// Collective: what follows waits for nobody that does not come.
void wait_for_all(MPI_Comm communicator, std::chrono::milliseconds timeout) {
  MPI_Request everybody = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(communicator, &everybody), "MPI_Ibarrier");
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  if (ends_within(everybody, timeout)) {
    // Whoever comes too late finds the barrier complete, and nobody behind it.
    int found = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, gave_up, communicator, &found, &status), "MPI_Iprobe");
    if (found == 0) return;
    throw CommError(fmt::format(
        "rank {} came to World::mpi when rank {} had given up waiting for it, after the "
        "time that COCONET_TIMEOUT_S sets",
        rank, status.MPI_SOURCE));
  }
  const std::vector<int> missing = find_missing(communicator);
  throw CommError(
      fmt::format("rank {} waited in World::mpi for rank{} {}, which did not come within {:g} s, "
                  "the limit that COCONET_TIMEOUT_S sets",
                  rank, missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                  std::chrono::duration<double>(timeout).count()));
}

/// Of all worlds of this process.
std::mutex memberships_mutex;
std::vector<std::weak_ptr<Membership>> memberships;

/// Collective over `communicator`, which is not used from then on.
Connected connect(MPI_Comm communicator, const std::shared_ptr<const Config>& config) {
  wait_for_all(communicator, config->timeout);
  Connected made;
  const MPI_Comm world = made.comms->split(communicator, 0, 0);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  log_as_rank(rank, ranks);
  require_alike(gather_and_wait(world, introduction(*config)));
  const MPI_Comm node = split_by_node(*made.comms, world, rank, config->host_id);
  const Exchange exchange = [&](std::string_view mine) { return gather_and_wait(node, mine); };
  const Nodes nodes =
      find_nodes(world, exchange(std::to_string(rank)).front(), name_of_node(*config));
  const Indexed<int> here = nodes.beside(rank);
  std::vector<Cores> cores;
  for (const std::string& text : exchange(available_cores().to_string())) cores.emplace_back(text);
  const int crowd = ranks_per_core(cores);
  std::vector<int> far;
  for (int other = 0; other < ranks; ++other) {
    if (!nodes.share({rank, other})) far.push_back(other);
  }

  if (!far.empty()) made.link = std::make_shared<MpiLink>(made.comms->split(world, 0, 0), far);
  std::shared_ptr<Pulse> pulse;
  if (!far.empty()) {
    pulse = std::make_shared<Pulse>();
    const Indexed<std::string> addresses = gather_and_wait(world, pulse->address());
    for (const int other : far) pulse->add(other, addresses[other]);
  }
  together_by_mpi(world, [&] {
    int place = 0;
    MPI_Comm_rank(node, &place);
    const auto board = map_across_processes(place, here, BoardComm::board_bytes(ranks), exchange);
    std::vector<RankStatus*> statuses(ranks);
    std::vector<std::uint64_t*> tables(ranks);
    for (const int other : far) statuses[other] = made.link->status_of(other);
    for (int beside = 0; beside < here.count(); ++beside) {
      statuses[here[beside]] = BoardComm::status_at(board->base(beside));
      tables[here[beside]] = BoardComm::news_at(board->base(beside));
    }
    // MPI moves on only inside its calls, and another rank may still wait for what this one sent.
    Waiting waiting{config->timeout, crowd > 1,
                    [world] {
                      int found = 0;
                      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found, MPI_STATUS_IGNORE);
                    },
                    require_mpi_thread};
    std::function<void(const RankStatus&)> tell;
    if (const auto link = made.link) {
      waiting.progress = [link] { link->poll(); };
      tell = [link](const RankStatus& status) { link->tell_state(status); };
    }
    const auto membership = std::make_shared<Membership>(
        rank, std::move(statuses), std::move(tables), std::move(waiting), tell);
    membership->watch(here, exchange(name_of_process()), board);
    if (pulse)
      membership->listen({[pulse] { pulse->answer(); }, [pulse] { return pulse->silent(); }});
    const std::lock_guard lock(memberships_mutex);
    std::erase_if(memberships, [](const auto& one) { return one.expired(); });
    memberships.push_back(membership);
    auto of_node =
        std::make_unique<MpiProcessComm>(node, made.comms, board, here, membership, crowd, config);
    if (made.link) {
      made.comm = make_nodes_comm(world, made.comms, nodes, std::move(of_node), made.link);
    } else {
      made.comm = std::move(of_node);
    }
  });
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
  if (frees) comms->free();
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

/// Whether a world of this process has ended because of a rank that is gone or does not come.
bool is_a_world_over() {
  const std::lock_guard lock(memberships_mutex);
  return std::ranges::any_of(memberships, [](const std::weak_ptr<Membership>& one) {
    const auto membership = one.lock();
    return membership && membership->is_over();
  });
}

/// Ends MPI as the process exits with `status`. MPI waits for all ranks there: where one may never
/// come, this process does not wait for long, and its launcher then ends the others.
void finalize(int status) {
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) return;
  if (is_a_world_over()) {
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::fflush(nullptr);  // as the exit that this cuts short would have done
      _exit(status != 0 ? status : EXIT_FAILURE);
    }).detach();
  }
  MPI_Finalize();
}

void start_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw CommError("World::mpi was called after MPI_Finalize; MPI cannot be started again");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    int provided = 0;  // less is served from this thread only
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
  start_mpi();
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
