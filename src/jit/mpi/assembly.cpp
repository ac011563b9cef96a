// The first rank whose time is over asks all others who is there. Those that wait answer at once,
// as they look for the question all the time, and give up with it; who does not answer is missing,
// and finds the message, when it comes at last, that it was given up.
#include "jit/mpi/assembly.h"

#include <fmt/format.h>
#include <sched.h>

#include <map>
#include <thread>

#include "coconet/error.h"
#include "jit/comm/barrier/wait_until.h"
#include "jit/mpi/door.h"
#include "jit/mpi/launched.h"
#include "jit/mpi/nodes.h"

namespace coconet::jit {

namespace {

using Clock = std::chrono::steady_clock;

/// The largest tags that every MPI has.
constexpr int who_is_there = 32766, gave_up = 32767;

/// How long ranks that start together wait for each other, give or take.
constexpr std::chrono::milliseconds yields_for{2};
constexpr std::chrono::microseconds pause{50};
/// How long it takes, give or take, to receive what a process has sent that has ended.
constexpr std::chrono::milliseconds takes_sent{200};

}  // namespace

Assembly::Assembly(MPI_Comm communicator, std::chrono::milliseconds timeout)
    : communicator_(communicator), timeout_(timeout) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &ranks_);
  membership_ = make_private_membership(rank_, ranks_, timeout_);
  membership_->watch({}, {}, nullptr);  // over this rank, inside calls of MPI
  int compared = MPI_UNEQUAL;
  MPI_Comm_compare(communicator_, MPI_COMM_WORLD, &compared);
  if (compared == MPI_IDENT || compared == MPI_CONGRUENT) launched_ = launched_ranks(timeout_);
  if (launched_.answer) membership_->listen(launched_);
}

void Assembly::meet() {
  MPI_Request everybody = MPI_REQUEST_NULL;
  call_mpi(*membership_, "MPI_Ibarrier", [&] { return MPI_Ibarrier(communicator_, &everybody); });
  wait(everybody);
  // Whoever comes too late finds the barrier complete, and nobody behind it.
  const int first = find_message(who_is_there);
  if (first >= 0) give_up(first);
}

Indexed<std::string> Assembly::gather(std::string_view mine) {
  static std::vector<std::unique_ptr<Transfer>> given_up;  // MPI may still write there
  auto transfer = std::make_unique<Transfer>();
  try {
    return gather_by_mpi(communicator_, *membership_, mine, *transfer,
                         [&](std::string_view) { wait(transfer->request); });
  } catch (...) {
    given_up.push_back(std::move(transfer));
    throw;
  }
}

void Assembly::watch(const std::vector<int>& ranks, const Indexed<std::string>& names) {
  std::vector<std::string> of_ranks;
  for (const int rank : ranks) of_ranks.push_back(names[rank]);
  membership_->watch(ranks, of_ranks, nullptr);
}

int Assembly::find_message(int tag) const {
  int found = 0;
  MPI_Status status;
  call_mpi(*membership_, "MPI_Iprobe",
           [&] { return MPI_Iprobe(MPI_ANY_SOURCE, tag, communicator_, &found, &status); });
  return found != 0 ? status.MPI_SOURCE : -1;
}

void Assembly::send(int rank, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;  // nobody waits for it
  call_mpi(*membership_, "MPI_Isend",
           [&] { return MPI_Isend(nullptr, 0, MPI_BYTE, rank, tag, communicator_, &request); });
}

void Assembly::wait(MPI_Request& request) {
  const Clock::time_point start = Clock::now();
  Clock::duration waited{};
  int first = -1;
  const bool came = wait_until([&] { return is_done(*membership_, request); },
                               [&] {
                                 waited = Clock::now() - start;
                                 first = find_message(who_is_there);
                                 return first >= 0 || waited >= timeout_ || membership_->is_over();
                               },
                               [&] {
                                 if (waited < yields_for) {
                                   sched_yield();
                                 } else {
                                   std::this_thread::sleep_for(pause);
                                 }
                               });
  if (!came) give_up(first);
}

std::vector<int> Assembly::find_missing() {
  std::vector<MPI_Request> got(ranks_, MPI_REQUEST_NULL);
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    send(other, who_is_there);
    call_mpi(*membership_, "MPI_Irecv", [&] {
      return MPI_Irecv(nullptr, 0, MPI_BYTE, other, who_is_there, communicator_, &got[other]);
    });
  }
  std::vector<int> missing;
  const Clock::time_point start = Clock::now();
  const auto is_over = [&](int other) {
    if (membership_->has_said_why(other)) return true;
    return Clock::now() - start >=
           (membership_->is_lost(other) ? takes_sent : time_to_answer(timeout_));
  };
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    const bool answered =
        wait_until([&] { return is_done(*membership_, got[other]); },
                   [&] { return is_over(other); }, [] { std::this_thread::sleep_for(pause); });
    // Who has gone on to where ranks share memory does not answer, but says there whom it missed.
    if (!answered && !membership_->has_said_why(other)) missing.push_back(other);
  }
  return missing;
}

std::string Assembly::why_missing(int rank, int first) const {
  if (membership_->is_lost(rank)) return "whose process has ended";
  if (membership_->is_stopped(rank)) return "which a signal or a debugger has stopped";
  if (first >= 0) return fmt::format("which did not come before rank {} gave up", first);
  return fmt::format("which did not come within {:g} s, the limit that COCONET_TIMEOUT_S sets",
                     std::chrono::duration<double>(timeout_).count());
}

void Assembly::give_up(int first) {
  const std::vector<int> missing = find_missing();
  const int who_named_me = find_message(gave_up);
  // Where one is lost inside MPI, others may be stuck there, and end, too.
  const std::string stuck =
      missing.size() > 1 && launched_.find_stuck ? launched_.find_stuck() : std::string();
  std::string message;
  if (who_named_me >= 0) {
    message = fmt::format(
        "rank {} came to World::mpi when rank {} had given up waiting for it, after the time that "
        "COCONET_TIMEOUT_S sets",
        rank_, who_named_me);
  } else if (missing.empty()) {
    membership_->require_nobody_failed();
    message = fmt::format(
        "rank {} waited in World::mpi until the time was over that COCONET_TIMEOUT_S sets, {:g} s, "
        "on rank {}, and now all ranks are there: one came too late, or the network is stuck",
        rank_, std::chrono::duration<double>(timeout_).count(), first < 0 ? rank_ : first);
  } else if (!stuck.empty()) {
    for (const int other : missing) send(other, gave_up);
    message = fmt::format(
        "rank {} waited in World::mpi until {}; {}", rank_,
        first < 0 ? "COCONET_TIMEOUT_S had passed" : fmt::format("rank {} gave up", first), stuck);
  } else {
    std::map<std::string, std::vector<int>> by_reason;
    for (const int other : missing) {
      send(other, gave_up);
      by_reason[why_missing(other, first)].push_back(other);
    }
    std::vector<std::string> parts;
    for (const auto& [why, ranks] : by_reason)
      parts.push_back(fmt::format("for {}, {}", name_ranks(ranks), why));
    message = fmt::format("rank {} waited in World::mpi {}", rank_, fmt::join(parts, ", and "));
  }
  const int awaited = !missing.empty() ? missing.front() : who_named_me >= 0 ? who_named_me : rank_;
  membership_->await(awaited, "in World::mpi");  // so that nobody takes this rank for the lost one
  membership_->fail(message);
  throw CommError(message);
}

}  // namespace coconet::jit
