// Worlds of MPI's communicators: made once for each, kept with it, and left when it is freed, MPI
// is finalised or the process ends.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "coconet/error.h"
#include "jit/config/configure.h"
#include "jit/config/end_process.h"
#include "jit/config/own_process.h"
#include "jit/mpi/connect.h"
#include "jit/mpi/door.h"
#include "jit/mpi/launched.h"
#include "jit/mpi/threads.h"
#include "jit/mpi/world.h"

namespace coconet::jit {

namespace {

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

/// What MPI_Initialized or MPI_Finalized answers.
bool says(int (*ask)(int*)) {
  int answer = 0;
  ask(&answer);
  return answer != 0;
}

/// Ends MPI as the process exits with `status`. MPI waits for all ranks there: where one may never
/// come, this process does not wait for long, and its launcher then ends the others.
void finalize(int status) {
  if (says(MPI_Finalized)) return;
  const auto worlds = living_memberships();
  if (std::ranges::any_of(worlds, [](const auto& one) { return one->is_over(); })) {
    std::thread([status] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
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
  if (says(MPI_Finalized))
    throw CommError("World::mpi was called after MPI_Finalize; MPI cannot be started again");
  if (!says(MPI_Initialized)) {
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
  if (!says(MPI_Initialized) || says(MPI_Finalized))
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
