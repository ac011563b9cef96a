// Runs of an executable, and waiting for them; put_run.cpp puts their steps into queues.
#include "jit/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/comm/barrier/barrier.h"
#include "jit/comm/barrier/wait_until.h"

namespace coconet::jit {
namespace {

/// Waits for `queue`. Throws CommError, and aborts `collectives`, on a failure or after
/// COCONET_TIMEOUT_S.
void finish_watching(Comm& comm, std::chrono::milliseconds timeout, const Queue& queue,
                     std::span<Collectives* const> collectives) {
  constexpr unsigned looks_before_sleep = 1000;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  try {
    unsigned looks = 0;
    std::exception_ptr failure;
    const bool ended = wait_until([&] { return queue.idle(); },
                                  [&] {
                                    for (Collectives* const one : collectives) one->check();
                                    try {
                                      comm.require_nobody_failed();
                                    } catch (const CommError&) {
                                      failure = std::current_exception();
                                    }
                                    return failure || std::chrono::steady_clock::now() >= deadline;
                                  },
                                  [&] {
                                    if (++looks > looks_before_sleep)
                                      std::this_thread::sleep_for(std::chrono::microseconds(20));
                                  });
    if (ended) return;
    if (failure) std::rethrow_exception(failure);
    std::vector<int> others;
    for (int other = 0; other < comm.size(); ++other) {
      if (other != comm.rank()) others.push_back(other);
    }
    comm.membership()->give_up({"in its library collectives", std::move(others),
                                "which did not come within " + seconds(timeout) +
                                    " s, the limit that COCONET_TIMEOUT_S sets"});
  } catch (const CommError&) {
    for (Collectives* const one : collectives) one->abort();
    throw;
  }
}

/// Whether a kernel's blocks wait for each other, or for other ranks'.
bool any_resident(const std::vector<Step>& steps) {
  return std::ranges::any_of(steps, [](const Step& step) {
    const auto* kernel = std::get_if<KernelLaunch>(&step.work);
    return kernel != nullptr && kernel->grid().resident;
  });
}

}  // namespace

Runner::Runner(Bound& bound, const Runner* before)
    : bound_(bound),
      immediate_(bound.platform.traits().immediate),
      sampler_(bound.platform, bound.steps.size()),
      kernel_waits_(bound.steps.size()),
      group_(bound, sampler_),
      replay_(bound.platform, group_, bound.steps.size()),
      refusal_step_(bound.config->check ? nullptr : find_refusal_step()) {
  const auto signal = bound_.library_kernels.find(tile_signal_name);
  if (signal != bound_.library_kernels.end()) tile_signal_ = signal->second.get();
  together(bound_.comm(), [&] {
    if (tile_signal_ != nullptr) tile_made_ = bound_.platform.make_event();
    own_queue_ = bound_.platform.make_queue(bound_.cores.count);
    fork_ = bound_.platform.make_fork(*own_queue_, widest());
    queue_ = own_queue_.get();
  });
  make_collectives(before);
  together(bound_.comm(), [&] {
    if (needs_order()) order_ = bound_.platform.make_launch_order();
  });
  if (before == nullptr) return;
  state_orders_ = before->state_orders_;
  if (before->application_queue_) use_stream(before->application_queue_->handle());
}

Runner::~Runner() {
  if (queue_ == nullptr || !process_.is_this()) return;  // a fork's queue has nothing to wait for
  try {
    wait();
    fork_->finish();
    if (order_) order_->finished(*queue_);
    // The driver's queue works on this rank's tensors.
    while (!group_.done()) std::this_thread::yield();
  } catch (const Error&) {
    // What failed was told to whoever waited for it, or nobody cares.
  }
}

void Runner::make_collectives(const Runner* before) {
  const Comm& comm = bound_.comm();
  library_calls_.resize(bound_.steps.size());
  std::map<int, std::vector<std::pair<std::vector<int>, Collectives*>>> by_axis;
  for (std::size_t index = 0; index < bound_.steps.size(); ++index) {
    const Step& step = bound_.steps[index];
    const auto* collective = std::get_if<LibraryCollective>(&step.work);
    if (collective == nullptr) continue;
    const int axis = collective->axis();
    const auto [place, is_new] = by_axis.try_emplace(axis);
    // A launch for several ranks has the groups of all of them.
    for (int rank = 0; is_new && rank < comm.size(); ++rank) {
      std::vector<int> ranks = bound_.plan.mesh().group(rank, axis);
      if (rank != (group_.alone() ? comm.rank() : ranks.front())) continue;
      collectives_.push_back(before != nullptr
                                 ? before->collectives_[collectives_.size()]
                                 : bound_.platform.make_collectives(bound_.comm(), ranks, step.name,
                                                                    bound_.library_kernels));
      if (bound_.tensors.window().memory) {
        together(bound_.comm(), [&] { collectives_.back()->open(bound_.tensors.window().span()); });
      }
      place->second.emplace_back(std::move(ranks), collectives_.back().get());
      if (collectives_.back()->needs_watching()) watched_.push_back(collectives_.back().get());
    }
    for (const auto& [ranks, collectives] : place->second) {
      LibraryCall call{collectives, {}};
      for (const int rank : ranks) {
        if (group_.alone() && rank != comm.rank()) continue;
        Bound& member = group_.member(rank);
        call.members.push_back(
            {&std::get<LibraryCollective>(member.steps[index].work), &member.tensors});
      }
      library_calls_[index].push_back(std::move(call));
    }
  }
}

bool Runner::needs_order() const {
  if (!group_.drives()) return false;
  // A launch that starts as a whole may keep what is behind it from starting while it has no room:
  // also what another executable's blocks wait for.
  return !bound_.at_once.empty() || !watched_.empty() || any_resident(bound_.steps);
}

std::size_t Runner::widest() const {
  std::size_t most = 1;
  for (const sched::Overlap& overlap : bound_.at_once) most = std::max(most, overlap.count);
  return most + (tile_signal_ != nullptr ? 1 : 0);
}

void Runner::use_stream(void* handle) {
  if (immediate_ || (application_queue_ && application_queue_->handle() == handle)) return;
  std::unique_ptr<Queue> next = bound_.platform.wrap_queue(handle);
  if (next->being_recorded()) {  // which must not depend on work outside the recording
    wait();
    if (order_) order_->finished(*queue_);
  } else {
    const std::unique_ptr<Event> queued = bound_.platform.make_event();
    queued->record(*queue_);
    queued->hold(*next);
    if (order_) order_->moved(*queue_, *next);
  }
  application_queue_ = std::move(next);
  queue_ = application_queue_.get();
}

void Runner::require_ready() const {
  if (!queue_->being_recorded()) return;
  require_unshared();
  if (checks()) {
    throw BackendError(
        "the application's stream is being captured, but with COCONET_CHECK=1 tensors are read "
        "before every step; unset it, or run the step outside the capture");
  }
  if (any_resident(bound_.steps) || !group_.alone()) {
    throw BackendError(
        "the application's stream is being captured, but a step whose ranks or kernels wait for "
        "each other cannot be replayed as it is; run it outside the capture, coconet-jit makes "
        "graphs of its own (COCONET_GRAPH)");
  }
}

void Runner::run(std::span<const ScalarValue> scalars) {
  if (running_.test_and_set(std::memory_order_acquire)) {
    throw BackendError(fmt::format(
        "another thread runs '{}' at this moment; one thread at a time may use an executable, each "
        "may have one of its own",
        bound_.plan.graph().name));
  }
  const auto end = [](std::atomic_flag* running) { running->clear(std::memory_order_release); };
  const std::unique_ptr<std::atomic_flag, decltype(end)> running(&running_, end);
  require_whole();
  bound_.comm().membership()->require_present();
  if (!immediate_) check_fault(false);
  std::string failure;
  try {
    bound_.tensors.complete();
    bound_.numbers.evaluate(scalars);
    require_ready();
  } catch (const BackendError& error) {
    failure = error.what();
  }
  enter(failure);
  if (checks()) check();
  begin_in_order();
  bound_.tensors.copy_in(*queue_);
  bound_.tables.refresh(bound_.tensors, *queue_);
  kernel_waits_.begin_run(immediate_ && is_sampled(runs_));
  if (!immediate_) prepare(0, bound_.steps.size());
  if (group_.alone()) {
    put_run();
  } else {
    put_run_of_group();
  }
  bound_.tensors.copy_out(*queue_);
  end_in_order();
  kernel_waits_.end_run([&](std::size_t step) { return blocks_at_once(step); });
  ++runs_;
}

void Runner::require_unshared() const {
  if (state_orders_.empty()) return;
  throw BackendError(
      "the application's stream is being captured, but what an executable does that shares states "
      "with another one waits for that one's work, which is outside; do it outside the capture");
}

void Runner::begin_in_order() {
  if (queue_->being_recorded()) require_unshared();
  for (const auto& order : state_orders_) order->hold(*queue_);
}

void Runner::end_in_order() {
  for (const auto& order : state_orders_) order->record(*queue_);
}

void Runner::in_order(const std::function<void()>& body) {
  begin_in_order();
  body();
  end_in_order();
}

void Runner::order_with(Runner& owner) {
  if (immediate_) return;
  auto &mine = state_orders_, &theirs = owner.state_orders_;
  if (mine.empty() && theirs.empty()) {
    together(bound_.comm(),
             [&] { theirs.push_back(std::make_shared<StateOrder>(bound_.platform.make_event())); });
  }
  // All that share the owner's states have an order with each other, too.
  if (theirs.empty()) theirs = mine;
  for (const auto& order : theirs) {
    if (std::ranges::find(mine, order) == mine.end()) mine.push_back(order);
  }
}

void Runner::require_whole() const {
  if (!broken_.empty())
    throw CommError("this executable cannot run any more, because in an earlier step " + broken_);
}

void Runner::require_at_rest() const {
  require_whole();
  require_not_captured();
}

void Runner::require_not_captured() const {
  if (!queue_->being_recorded()) return;
  throw BackendError(
      "the application's stream is being captured; resize an executable, reset it or share its "
      "states outside the capture");
}

int Runner::blocks_at_once(std::size_t index) const {
  const auto* const kernel = std::get_if<KernelLaunch>(&bound_.steps[index].work);
  if (kernel == nullptr) return 1;
  return bound_.platform.traits().fixed_threads == 1 ? kernel->grid().cores : kernel->grid().blocks;
}

const Sampler* Runner::local_times() {
  if (!group_.drives()) return nullptr;
  sampler_.harvest();
  return &sampler_;
}

void Runner::start_trace(std::size_t runs) {
  collect_times();
  bound_.comm().barrier();
  if (group_.drives()) sampler_.start_trace(*queue_, runs);
}

void Runner::prepare(std::size_t first, std::size_t count) {
  for (std::size_t index = first; index < first + count; ++index) {
    if (auto* kernel = std::get_if<KernelLaunch>(&bound_.steps[index].work))
      kernel->prepare(bound_.tensors, bound_.numbers, *bound_.sync, kernel_waits_.sum(index));
  }
}

void Runner::wait() {
  // Kernels end by themselves, a library's collectives only with the other ranks'.
  if (!watched_.empty()) {
    finish_watching(bound_.comm(), bound_.config->timeout, *queue_, watched_);
  } else {
    queue_->finish();
  }
  sampler_.harvest();
}

void Runner::finish() {
  if (immediate_) return;
  try {
    wait();
  } catch (const CommError& error) {
    break_off(error.what());
    throw;
  }
  check_fault(true);
}

void Runner::collect_times() {
  finish();
  sampler_.harvest();
  let_times_go();  // the driver's times are read from here on
}

void Runner::let_times_go() {
  if (!group_.alone()) bound_.comm().barrier();
}

}  // namespace coconet::jit
