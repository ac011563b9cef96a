// Waiting for other ranks: spin while they are probably on their way, then give way, then sleep.
#include "jit/comm/barrier/barrier.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "jit/comm/barrier/wait_until.h"

namespace coconet::jit {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// An arrival is the count of barriers, what was given, and in the lowest bits the call that the
// rank is in.
constexpr int call_bits = 4;
constexpr int count_at = call_bits + Barrier::given_bits;
constexpr std::uint64_t given_mask = (std::uint64_t{1} << Barrier::given_bits) - 1;
constexpr std::uint64_t call_mask = (1 << call_bits) - 1;
constexpr std::array<std::string_view, 9> calls = {"another call", "barrier",    "all_gather",
                                                   "broadcast",    "all_reduce", "reduce_scatter",
                                                   "reduce",       "send",       "run"};
constexpr std::uint64_t refusal = call_mask;
static_assert(calls.size() < refusal);

std::uint64_t code_of(std::string_view call) {
  const auto* const found = std::ranges::find(calls, call);
  return found == calls.end() ? 0 : static_cast<std::uint64_t>(found - calls.begin());
}

// Some tens of microseconds, as a pause takes 5 to 50 ns: a rank at the same step usually comes in
// that time.
constexpr int spins = 2000;
// Yielding reacts like spinning where nobody else wants the core. Later a rank sleeps, so that one
// that compiles has the cores, for a sixteenth of its wait so far, the most that this can add.
constexpr microseconds yields_for{1000};
constexpr microseconds longest_sleep{1000};

}  // namespace

Barrier::Barrier(std::shared_ptr<Membership> membership, std::vector<int> ranks,
                 std::vector<std::uint64_t*> arrivals, std::shared_ptr<const void> memory,
                 RemoteNotifier notifier)
    : membership_(std::move(membership)),
      ranks_(std::move(ranks)),
      arrivals_(std::move(arrivals)),
      memory_(std::move(memory)),
      notifier_(std::move(notifier)) {
  position_ = static_cast<int>(std::ranges::find(ranks_, membership_->rank()) - ranks_.begin());
}

std::uint64_t Barrier::arrival(int position) const {
  return std::atomic_ref<std::uint64_t>(*arrivals_[position]).load(std::memory_order_acquire);
}

bool Barrier::arrived(int position) const {
  return arrival(position) >> count_at >= count_;
}

void Barrier::arrive(std::uint64_t call, std::uint64_t given) {
  ++count_;
  const std::uint64_t arrival = count_ << count_at | (given & given_mask) << call_bits | call;
  std::atomic_ref<std::uint64_t>(*arrivals_[position_]).store(arrival, std::memory_order_release);
  if (notifier_.notify) notifier_.notify(arrival);
}

void Barrier::wait(std::string_view call, std::chrono::milliseconds longer, std::uint64_t given) {
  if (membership_->waiting().require_thread) membership_->waiting().require_thread();
  membership_->require_present();
  const std::uint64_t code = code_of(call);
  arrive(code, given);
  for (int position = 0; position < size(); ++position) {
    if (!arrived(position)) wait_for(position, call, longer);
  }
  if (notifier_.notify && !notifier_.done()) wait_for_notifier(call, longer);
  require_same_call(call, code);
  require_same_given();
}

// As above: who is at a later barrier found that all agree.
void Barrier::require_same_given() {
  for (int position = 0; position < size(); ++position) {
    const std::uint64_t found = arrival(position);
    if (found >> count_at == count_ && found != arrival(position_))
      throw Differs(fmt::format("rank {} was given something else", ranks_[position]));
  }
}

// Who is at a later barrier already was in the same call at this one.
void Barrier::require_same_call(std::string_view call, std::uint64_t code) {
  for (int position = 0; position < size(); ++position) {
    const std::uint64_t found = arrival(position);
    if (found >> count_at != count_) continue;
    const std::uint64_t other = found & call_mask;
    if (other == refusal)
      throw Refused(fmt::format("rank {} refused to take part in {}", ranks_[position], call));
    if (other == code) continue;
    const std::string message = fmt::format(
        "rank {} is in {}, but rank {} in {}; all ranks must make the same collective calls in the "
        "same order",
        membership_->rank(), call, ranks_[position], calls[other]);
    membership_->fail(message);
    throw CommError(message);
  }
}

void Barrier::refuse() {
  arrive(refusal, 0);
}

void Barrier::wait_for(int position, std::string_view call, std::chrono::milliseconds longer) {
  const Waiting& waiting = membership_->waiting();
  const bool gives_way = waiting.crowded || notifier_.notify;  // messages come by `progress` only
  for (int spin = 0; spin < (gives_way ? 0 : spins); ++spin) {
    pause_core();
    if (arrived(position)) return;
  }
  const Clock::time_point start = Clock::now();
  const std::chrono::milliseconds limit = waiting.timeout + longer;
  Clock::duration waited{};
  unsigned looks = 0;
  Clock::duration next_question = waiting.timeout;
  bool is_idle = false;
  const bool came = wait_until(
      [&] { return arrived(position); },
      [&] {
        waited = Clock::now() - start;
        // Who is stopped, or has ended with nobody beside it, does none of the work that there is
        // more time for.
        if (++looks % 64 == 0 && longer.count() > 0 && waited > waiting.timeout)
          is_idle = membership_->is_stopped(ranks_[position]);
        if (!is_idle && longer.count() > 0 && waited > next_question) {
          is_idle = membership_->has_gone_silent(ranks_[position]);
          next_question = Clock::now() - start + waiting.timeout;
        }
        return is_idle || waited > limit || membership_->is_over() ||
               membership_->has_left(ranks_[position]);
      },
      [&] {
        membership_->progress();
        if (waited < yields_for) {
          sched_yield();
        } else {
          std::this_thread::sleep_for(std::min<Clock::duration>(longest_sleep, waited / 16));
        }
      });
  std::vector<int> ranks = is_idle ? std::vector{ranks_[position]} : missing();
  if (came || arrived(position)) return;
  const auto within = is_idle ? waiting.timeout : limit;
  give_up(call, std::move(ranks),
          fmt::format("which did not come within {:g} s, the limit{}",
                      static_cast<double>(within.count()) / 1000,
                      longer.count() > 0 && !is_idle
                          ? "s that COCONET_TIMEOUT_S and COCONET_COMPILE_TIMEOUT_S set"
                          : " that COCONET_TIMEOUT_S sets"),
          is_idle || waited > limit);
}

void Barrier::wait_for_notifier(std::string_view call, std::chrono::milliseconds longer) {
  const Clock::time_point start = Clock::now();
  const std::chrono::milliseconds timeout = membership_->waiting().timeout;
  Clock::duration next_question = timeout;
  bool is_late = false;
  const bool is_told =
      wait_until([&] { return notifier_.done(); },
                 [&] {
                   const Clock::duration waited = Clock::now() - start;
                   is_late = waited > timeout + longer;
                   if (!is_late && waited > next_question) {  // who has ended takes nothing
                     is_late = std::ranges::any_of(
                         ranks_, [&](int rank) { return membership_->has_gone_silent(rank); });
                     next_question = Clock::now() - start + timeout;
                   }
                   return is_late || membership_->is_over();
                 },
                 [&] {
                   membership_->progress();
                   sched_yield();
                 });
  if (is_told) return;
  std::vector<int> others = ranks_;
  std::erase(others, membership_->rank());
  give_up(call, others, "where this rank's message was not taken in time", is_late);
}

std::vector<int> Barrier::missing() const {
  std::vector<int> ranks;
  for (int position = 0; position < size(); ++position) {
    if (!arrived(position)) ranks.push_back(ranks_[position]);
  }
  return ranks;
}

void Barrier::give_up(std::string_view call, std::vector<int> awaited, std::string why,
                      bool is_over_time) {
  membership_->give_up(
      {fmt::format("in {}", call), std::move(awaited), std::move(why), is_over_time});
}

}  // namespace coconet::jit
