// Giving work to threads, and waiting for it.
#include "jit/comm/worlds/core_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <system_error>

#include "coconet/error.h"
#include "jit/config/quiet_thread.h"

namespace coconet::jit {

namespace {

/// How long a thread looks for more work before it sleeps: the next kernel of a step comes sooner,
/// and what the application computes between steps may need the core.
constexpr auto time_to_look = std::chrono::microseconds(100);
/// Looks before a thread gives its core to whoever wants it, between two of them.
constexpr int looks_before_yield = 1000;
constexpr int looks_a_clock = 64;

void pause_between_looks(int looks) {
  if (looks >= looks_before_yield) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `count` is no longer `seen`, and returns what it is.
int wait_for_change(const std::atomic<int>& count, int seen) {
  std::chrono::steady_clock::time_point end{};
  for (int looks = 0;; ++looks) {
    const int now = count.load(std::memory_order_acquire);
    if (now != seen) return now;
    pause_between_looks(looks);
    if (looks % looks_a_clock != 0) continue;
    const auto time = std::chrono::steady_clock::now();
    if (looks == 0) end = time + time_to_look;
    if (time >= end) count.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

CorePool& CorePool::of_this_thread() {
  static thread_local std::unique_ptr<CorePool> pool;
  if (pool == nullptr || !pool->process_.is_this()) pool.reset(new CorePool);
  return *pool;
}

CorePool::~CorePool() {
  if (!process_.is_this()) {
    for (const auto& worker : workers_) forget_thread(worker->thread);
    return;
  }
  ends_ = true;
  for (const auto& worker : workers_) {
    worker->given.fetch_add(1);
    worker->given.notify_one();
    worker->thread.join();
  }
}

void CorePool::start(int cores) {
  while (static_cast<int>(workers_.size()) + 1 < cores) {
    auto worker = std::make_unique<Worker>();
    const int index = static_cast<int>(workers_.size()) + 1;
    try {
      worker->thread =
          start_without_signals([this, index, own = worker.get()] { work_as(*own, index); });
    } catch (const std::system_error& error) {
      throw BackendError(
          fmt::format("{} cores of this rank are {} threads, and the system starts no more than {} "
                      "({}); lower COCONET_CORES",
                      cores, cores, index, error.code().message()));
    }
    workers_.push_back(std::move(worker));
  }
}

void CorePool::begin(int cores, Call call, const void* context) {
  start(cores);
  call_ = call;
  context_ = context;
  for (int index = 1; index < cores; ++index) {
    std::atomic<int>& given = workers_[index - 1]->given;
    // In one order with the thread's going to sleep, which looks at the count once more.
    given.fetch_add(1, std::memory_order_seq_cst);
    given.notify_one();
  }
}

bool CorePool::take(Worker& worker, int number) {
  int before = number - 1;
  return worker.taken.compare_exchange_strong(before, number, std::memory_order_acq_rel);
}

void CorePool::finish(int cores) {
  for (int index = 1; index < cores; ++index) {
    Worker& worker = *workers_[index - 1];
    const int number = worker.given.load(std::memory_order_relaxed);
    if (take(worker, number)) {
      call_(context_, index);
      continue;
    }
    for (int looks = 0; worker.done.load(std::memory_order_acquire) != number; ++looks)
      pause_between_looks(looks);
  }
}

void CorePool::work_as(Worker& worker, int index) {
  for (int seen = 0;;) {
    seen = wait_for_change(worker.given, seen);
    if (ends_) return;
    if (!take(worker, seen)) continue;
    call_(context_, index);
    worker.done.store(seen, std::memory_order_release);
  }
}

}  // namespace coconet::jit
