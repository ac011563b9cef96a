// A rank that fails or goes says so in the memory of all ranks of its node. So does a rank that
// gives up waiting: then the others' waits end, too, each rank says whom it has waited for, and all
// follow that to the root cause.
#include "jit/comm/barrier/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "jit/comm/barrier/rank_state.h"
#include "jit/comm/barrier/watch.h"

namespace coconet::jit {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How long a rank is stopped at least that is taken to be stopped for good.
constexpr std::chrono::milliseconds brief_stop = 500ms;

template <std::size_t size>
void copy_text(std::string_view text, char (&to)[size]) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

}  // namespace

std::chrono::milliseconds time_to_answer(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout, 500ms, 10s);
}

std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.size() < 2) return fmt::format("rank {}", fmt::join(ranks, ""));
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

Membership::Membership(int rank, std::vector<RankStatus*> statuses,
                       std::vector<std::uint64_t*> tables, Waiting waiting)
    : rank_(rank),
      statuses_(std::move(statuses)),
      tables_(std::move(tables)),
      waiting_(std::move(waiting)) {}

Membership::~Membership() = default;

void Membership::start_watch() {
  if (watch_) return;
  try {
    watch_ = std::make_unique<Watch>([this](int rank) { lose(rank); });
  } catch (const std::system_error& error) {
    throw CommError(fmt::format("rank {} cannot start the thread that watches over the others: {}",
                                rank_, error.code().message()));
  }
}

void Membership::watch(const std::vector<int>& ranks, const std::vector<std::string>& names,
                       std::shared_ptr<const void> memory) {
  memory_ = std::move(memory);
  start_watch();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != rank_) watch_->add(ranks[i], names[i]);
  }
}

std::shared_ptr<void> Membership::mirror_notices(std::uint64_t* copy) {
  start_watch();
  watch_->mirror(notices(), copy, static_cast<std::size_t>(size()));
  return {copy, [this](std::uint64_t* ended) { watch_->end_mirror(ended); }};
}

void Membership::listen(FarRanks far) {
  far_ = std::move(far);
  start_watch();
  look_regularly();
}

void Membership::look_regularly() {
  if (!watch_ || looks_regularly_) return;
  watch_->look_regularly([this] {
    if (far_.answer) far_.answer();
    look_at_blocking();
  });
  looks_regularly_ = true;
}

void Membership::spread(Notice notice) noexcept {
  for (std::uint64_t* const table : tables_) {
    if (table == nullptr) continue;
    for (int of = 0; of < size(); ++of) {
      if (notice == notice_of_failure || of == rank_)
        shared(table[of]).store(notice, std::memory_order_release);
    }
  }
}

bool Membership::mark_failed(std::string_view reason) noexcept {
  RankStatus& status = *statuses_[rank_];
  if (!process_.is_this() || state_of(status) != present) return false;
  copy_text(reason, status.reason);
  shared(status.state).store(failed, std::memory_order_release);
  spread(notice_of_failure);
  return true;
}

void Membership::fail(std::string_view reason) noexcept {
  if (mark_failed(reason)) tell(rank_);
}

void Membership::leave() noexcept {
  RankStatus& status = *statuses_[rank_];
  if (!process_.is_this() || state_of(status) != present) return;
  shared(status.state).store(left, std::memory_order_release);
  spread(notice_of_leave);
  tell(rank_);
}

void Membership::lose(int rank) noexcept {
  shared(statuses_[rank]->ended).store(1, std::memory_order_release);
  std::uint32_t expected = present;
  const bool is_first = shared(statuses_[rank]->state).compare_exchange_strong(expected, gone);
  // Whoever noticed first may have ended before it told all.
  if (is_first || expected == gone) spread(notice_of_failure);
}

void Membership::take_end(int rank, const RankStatus& last) noexcept {
  if (last.state != failed) {
    lose(rank);
    return;
  }
  RankStatus& status = *statuses_[rank];
  if (state_of(status) != present || awaits_another(rank)) return;
  copy_text({last.place, strnlen(last.place, sizeof last.place)}, status.place);
  copy_text({last.reason, strnlen(last.reason, sizeof last.reason)}, status.reason);
  if (last.awaits <= static_cast<std::uint32_t>(size()))
    shared(status.awaits).store(last.awaits, std::memory_order_release);
  shared(status.state).store(failed, std::memory_order_release);
  spread(notice_of_failure);
}

void Membership::require_present() const {
  if (size() > 1 && !process_.is_this()) {
    throw CommError(fmt::format(
        "this process is a fork of rank {}, which alone takes part in its world; make another "
        "world here, such as World::self",
        rank_));
  }
  RankStatus& status = *statuses_[rank_];
  switch (state_of(status)) {
    case present:
    case gone:
      return;
    case failed:
      throw CommError(fmt::format("rank {} failed in this world before: {}", rank_, status.reason));
    case left:
      throw CommError(
          fmt::format("rank {} has left this world already, which ends with MPI_Finalize, the "
                      "communicator that it "
                      "was made of, or World::local",
                      rank_));
  }
}

void Membership::require_not_aborted() const {
  RankStatus& status = *statuses_[rank_];
  if (state_of(status) == failed && !awaits_another(rank_))
    throw CommError(fmt::format("rank {} failed: {}", rank_, status.reason));
}

void Membership::require_nobody_failed() {
  require_not_aborted();
  int root = find_root();
  if (root < 0) {
    if (!is_over()) return;
    // One that has given up and left knows more than its end; one that has not is still asking.
    for (int rank = 0; root < 0 && rank < size(); ++rank) {
      if (rank != rank_ && awaits_another(rank) && has_left(rank)) root = rank;
    }
    if (root < 0) return;
  }
  if (!awaits_another(rank_)) {
    await(root, "to go on");
    tell_of_lost();
    tell(rank_);
  }
  RankStatus& status = *statuses_[root];
  if (state_of(status) == gone)
    throw CommError(fmt::format("rank {} is gone: its process has ended", root));
  if (state_of(status) != failed) {
    throw CommError(fmt::format("rank {} waited {} for rank {} and gave up", root, status.place,
                                shared(status.awaits).load(std::memory_order_acquire) - 1));
  }
  throw PeerFailure(fmt::format("rank {} failed: {}", root, status.reason));
}

bool Membership::has_left(int rank) const {
  return state_of(*statuses_[rank]) == left;
}

bool Membership::is_ended(int rank) const {
  return shared(statuses_[rank]->ended).load(std::memory_order_acquire) != 0;
}

bool Membership::is_lost(int rank) const {
  return has_left(rank) || is_ended(rank);
}

bool Membership::is_stopped(int rank) {
  return watch_ && watch_->is_stopped(rank);
}

bool Membership::is_over() {
  if (shared(tables_[rank_][rank_]).load(std::memory_order_acquire) == notice_of_failure)
    return true;
  // Kernels of this node do not see messages; they see their rank's notices.
  for (int rank = 0; rank < size(); ++rank) {
    if (!is_far(rank)) continue;
    const RankState state = state_of(*statuses_[rank]);
    if (state != failed && state != gone && !awaits_another(rank)) continue;
    spread(notice_of_failure);
    return true;
  }
  return false;
}

bool Membership::has_said_why(int rank) const {
  return state_of(*statuses_[rank]) == failed || awaits_another(rank);
}

bool Membership::awaits_another(int rank) const {
  return shared(statuses_[rank]->awaits).load(std::memory_order_acquire) != 0;
}

int Membership::find_root() const {
  int consequence = -1;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    const RankState state = state_of(*statuses_[rank]);
    if (state == gone) return rank;
    if (state != failed) continue;
    if (!awaits_another(rank)) return rank;
    if (consequence < 0) consequence = rank;
  }
  return consequence;
}

Membership::Verdict Membership::verdict_on(int rank, const std::string& why_late,
                                           Clock::time_point since) {
  if (rank == rank_) return {Explains::lateness, true, why_late};
  std::vector<int> chain{rank_};
  std::string text;
  for (int at = rank;;) {
    const bool is_direct = at == rank;
    RankStatus& status = *statuses_[at];
    const RankState state = state_of(status);
    if (state == gone) return {Explains::end, is_direct, text + "whose process has ended"};
    if (state == left) return {Explains::end, is_direct, text + "which has left the world"};
    const std::uint32_t awaits = shared(status.awaits).load(std::memory_order_acquire);
    if (awaits == 0) {
      const bool is_told =
          is_far(at) && shared(status.stopped).load(std::memory_order_acquire) != 0;
      const auto waited = Clock::now() - since;
      const bool may_answer =
          waited < time_to_answer(waiting_.timeout) && (waited < brief_stop || !is_stopped(at));
      if (may_answer && !is_told) {
        progress();
        std::this_thread::sleep_for(1ms);
        continue;
      }
      if (is_told || is_stopped(at))
        return {Explains::stop, is_direct, text + "which a signal or a debugger has stopped"};
      if (is_silent(at)) {
        return {Explains::silence, is_direct,
                text +
                    "which gives no sign of life: on its node its process is stopped or has "
                    "ended, or no datagram gets there"};
      }
      return {Explains::lateness, is_direct, text + why_late};
    }
    const int next = static_cast<int>(awaits) - 1;
    text += fmt::format("which waited {}", status.place);
    if (next == at) {
      // It did not know for whom, and has said what it knew.
      if (state == failed) text += fmt::format(" ({})", status.reason);
      return {Explains::lateness, false, text};
    }
    text += fmt::format(" for rank {}", next);
    if (std::ranges::find(chain, next) != chain.end()) {
      return {Explains::nothing, false,
              text + "; they are in different calls, or one came too late"};
    }
    text += ", ";
    chain.push_back(at);
    at = next;
  }
}

std::optional<std::string> Membership::cause_elsewhere(const std::vector<int>& besides,
                                                       const std::string& why_late,
                                                       Clock::time_point since) {
  for (int rank = 0; rank < size(); ++rank) {
    const bool is_besides = std::ranges::find(besides, rank) != besides.end();
    if (rank == rank_ || is_besides || !awaits_another(rank)) continue;
    const Verdict verdict = verdict_on(rank, why_late, since);
    if (verdict.explains < Explains::lateness)
      return fmt::format("rank {} gave up, {}", rank, verdict.text);
  }
  return std::nullopt;
}

bool Membership::has_gone_silent(int rank) {
  if (!is_far(rank) || !far_.has_answered || !far_.has_answered(rank)) return false;
  silent_.reset();
  return is_silent(rank);
}

bool Membership::is_silent(int rank) {
  if (!is_far(rank) || !far_.find_silent) return false;
  if (!silent_) silent_ = far_.find_silent();
  return std::ranges::find(*silent_, rank) != silent_->end();
}

void Membership::tell_of_lost() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || is_far(rank)) continue;
    const bool stops = is_stopped(rank);
    if (!stops && !is_ended(rank)) continue;
    shared(statuses_[rank]->stopped).store(stops ? 1 : 0, std::memory_order_release);
    tell(rank);
  }
}

std::string Membership::why_late(const FailedWait& wait) const {
  if (wait.is_over_time) return wait.why_late;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && awaits_another(rank))
      return fmt::format("which did not come before rank {} gave up", rank);
  }
  return "which had not come by then";
}

void Membership::await(int rank, std::string_view place) noexcept {
  RankStatus& status = *statuses_[rank_];
  copy_text(place, status.place);
  shared(status.awaits).store(static_cast<std::uint32_t>(rank) + 1, std::memory_order_release);
}

void Membership::give_up(const FailedWait& wait) {
  require_not_aborted();
  progress();
  const std::string late = why_late(wait);
  // Where one of several did not come, it is rather one that has not given up, too.
  const auto waits_for_none =
      std::ranges::find_if(wait.awaited, [&](int rank) { return !awaits_another(rank); });
  await(waits_for_none == wait.awaited.end() ? wait.awaited.front() : *waits_for_none, wait.place);
  spread(notice_of_failure);
  tell_of_lost();
  tell(rank_);
  const auto waited_for = [&](const std::vector<int>& ranks) {
    const std::string waited = fmt::format("rank {} waited {}", rank_, wait.place);
    return ranks.front() == rank_ ? waited : fmt::format("{} for {}", waited, name_ranks(ranks));
  };

  // A rank that failed by itself or is gone is the root cause, whoever waits for whom.
  const int root = find_root();
  if (root >= 0 && state_of(*statuses_[root]) == gone) {
    const bool is_awaited = std::ranges::find(wait.awaited, root) != wait.awaited.end();
    fail(is_awaited ? waited_for({root}) + ", whose process has ended"
                    : fmt::format("{} when the process of rank {} had ended",
                                  waited_for(wait.awaited), root));
    throw CommError(statuses_[rank_]->reason);
  }
  if (root >= 0 && !awaits_another(root)) {
    fail(fmt::format("rank {} failed: {} ({})", root, statuses_[root]->reason,
                     waited_for(wait.awaited)));
    throw PeerFailure(statuses_[rank_]->reason);
  }
  // Those of whom most is known; ranks that wait for each other explain nothing.
  const Clock::time_point since = Clock::now();
  std::vector<Verdict> verdicts;
  for (const int rank : wait.awaited) verdicts.push_back(verdict_on(rank, late, since));
  const auto best = std::ranges::min_element(
      verdicts, {}, [](const Verdict& one) { return std::pair(one.explains, !one.is_direct); });
  std::vector<int> named;
  for (std::size_t at = 0; at < verdicts.size(); ++at) {
    if (verdicts[at].text == best->text) named.push_back(wait.awaited[at]);
  }
  std::string message = fmt::format("{}, {}", waited_for(named), best->text);
  if (best->explains == Explains::nothing) {
    if (const std::optional<std::string> cause = cause_elsewhere(wait.awaited, late, since))
      message = fmt::format("{} when {}", waited_for(wait.awaited), *cause);
  }
  fail(message);
  throw CommError(message);
}

}  // namespace coconet::jit
