// Calls that only other ranks can end: where they will not, the thread of the watch ends this
// process.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jit/comm/barrier/membership.h"
#include "jit/comm/barrier/rank_state.h"
#include "jit/comm/barrier/watch.h"
#include "jit/config/end_process.h"

namespace coconet::jit {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How long calls of MPI have to return after a rank is lost, which needs what others have sent.
constexpr std::chrono::milliseconds time_to_return = 500ms;
/// How long after each other ranks of several nodes ask who is lost, where one has ended.
constexpr std::chrono::milliseconds asked_within = 2s;

}  // namespace

Membership::BlockingCall::Entry Membership::enter_blocking(BlockingCall::Entry entry) {
  if (!looks_regularly_) look_regularly();
  blocking_call_.store(nullptr, std::memory_order_release);  // never a call with another's time
  blocked_since_.store(entry.since, std::memory_order_relaxed);
  blocking_longer_.store(entry.longer, std::memory_order_relaxed);
  blocking_call_.store(entry.call, std::memory_order_release);
  return std::exchange(blocking_, entry);
}

void Membership::look_at_blocking() {
  const char* const call = blocking_call_.load(std::memory_order_acquire);
  if (call == nullptr) return;
  const Clock::time_point since = blocked_since_.load(std::memory_order_relaxed);
  const auto blocked = Clock::now() - since;
  if (blocked < time_to_return) return;
  const bool is_over_time = blocked > waiting_.timeout && Clock::now() >= asked_again_;
  std::string stuck = is_over_time ? find_stuck() : std::string();
  const int root = find_root();
  std::string why;
  const auto longer = blocking_longer_.load(std::memory_order_relaxed);
  const bool is_gone = root >= 0 && state_of(*statuses_[root]) == gone;
  // Where there is more time, who has failed and still runs may come yet.
  if (root >= 0 && stuck.empty() && (is_gone || blocked > longer)) {
    why = is_gone ? fmt::format("the process of rank {} had ended", root)
                  : fmt::format("rank {} had failed: {}", root, statuses_[root]->reason);
  } else if (is_over_time) {
    if (stuck.empty()) {
      asked_again_ = Clock::now() + 1s;
      if (longer.count() > 0 && blocked - waiting_.timeout < longer) return;
      stuck = "one of the others is stuck, or the network between the nodes is";
    }
    why = fmt::format("COCONET_TIMEOUT_S had passed, {:g} s; {}",
                      std::chrono::duration<double>(waiting_.timeout).count(), stuck);
  } else {
    return;
  }
  if (blocking_call_.load(std::memory_order_acquire) != call ||
      blocked_since_.load(std::memory_order_relaxed) != since)
    return;
  const std::string message = fmt::format("rank {} was inside {} when {}", rank_, call, why);
  await(root >= 0 ? root : rank_, fmt::format("inside {}", call));
  const bool has_failed =
      mark_failed(message);  // and tells nobody else: MPI is not for this thread
  end_process(
      EXIT_FAILURE,
      fmt::format("coconet-jit: {}. Nothing else ends that call: this process ends.\n", message),
      [&] {
        // Other nodes that ask at about the same time must not take this process for the lost one.
        const auto until =
            Clock::now() + (is_over_time ? time_to_answer(waiting_.timeout) : asked_within);
        if (has_failed && far_.tell_end) far_.tell_end(*statuses_[rank_]);
        while (far_.find_silent && Clock::now() < until) {
          far_.answer();
          std::this_thread::sleep_for(20ms);
        }
      });
}

std::string Membership::find_stuck() {
  if (far_.find_stuck) return far_.find_stuck();
  std::vector<int> stopped, ended, silent;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    if (watch_->is_stopped(rank)) stopped.push_back(rank);
    if (has_left(rank) && is_ended(rank)) ended.push_back(rank);
  }
  // What this node knows is certain; others may be silent since they ended for the same reason.
  if (stopped.empty() && far_.find_silent) {
    silent = far_.find_silent();
    // Those that have left may well have ended.
    if (!std::ranges::all_of(silent, [&](int rank) { return has_left(rank); }))
      std::erase_if(silent, [&](int rank) { return has_left(rank); });
  }
  std::vector<std::string> found;
  if (!stopped.empty())
    found.push_back(fmt::format("stopped by a signal or a debugger: {}", name_ranks(stopped)));
  if (!silent.empty()) {
    found.push_back(fmt::format(
        "without an answer, as processes are that are stopped or have ended, on other nodes: {}",
        name_ranks(silent)));
  }
  if (found.empty() && !ended.empty())
    found.push_back(fmt::format("ended meanwhile: {}", name_ranks(ended)));
  return fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace coconet::jit
