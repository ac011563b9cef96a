// How this process was started, and how it ends when something fails; see launch.h.
#include "cli/launch.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "coconet/error.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/launcher.h"

namespace coconet::cli {
namespace {

/// How long ranks that failed wait for each other, in seconds.
constexpr unsigned grace = 5;

void leave(int) {
  _exit(exit_failure);
}

/// Exchanges the ranks' messages; says on this rank what no lower one did. Another rank's message
/// stands for `mine` when it is the same, or one quotes the other.
void settle(jit::Comm& comm, const std::string& mine) {
  const std::vector<std::string> all = comm.all_gather(mine);
  if (comm.rank() == 0) return;
  // The other ranks were told "rank 1: ...", so that the quoted message is the end of the quoting
  // one.
  const auto quotes = [](const std::string& a, const std::string& b) {
    return !b.empty() && a.ends_with(b);
  };
  const auto said = [&](const std::string& earlier) {
    return quotes(earlier, mine) || quotes(mine, earlier);
  };
  const auto earlier_end = all.begin() + comm.rank();
  if (std::any_of(all.begin(), earlier_end, said)) return;
  complain(fmt::format("rank {}: {}", comm.rank(), mine));
}

}  // namespace

Launch launch() {
  const jit::Launched told = jit::told_by_launcher();
  return told.is_mpi ? Launch{true, told.rank} : Launch{};
}

void complain(std::string_view message) {
  std::fflush(stdout);
  std::fprintf(stderr, "coconet: %.*s\n", static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
}

int fail_alike(std::string_view message, int code) {
  const int rank = launch().rank;
  if (rank == 0) {
    complain(message);
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    complain(fmt::format("rank {}: {}", rank, message));
  }
  return code;
}

int guarded(const World& world, const std::function<int()>& body) {
  std::string message;
  int code = exit_failure;
  try {
    return body();
  } catch (const UsageError& error) {
    message = error.what();
    code = exit_usage;
  } catch (...) {
    message = jit::message_of(std::current_exception());
  }
  if (world.rank() == 0) complain(message);
  if (world.kind() != "mpi" || world.size() == 1) return code;
  // Library calls throw on all ranks, so the others are on their way here. If one is not, it is
  // dead or stuck, and then neither this exchange nor MPI's own finalisation at exit would return:
  // the alarm ends the process.
  std::signal(SIGALRM, leave);
  alarm(grace);
  try {
    settle(jit::comm_of(world), message);
  } catch (const std::exception&) {
    if (world.rank() != 0) complain(fmt::format("rank {}: {}", world.rank(), message));
  }
  return code;
}

}  // namespace coconet::cli
