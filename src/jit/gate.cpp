// Flags in shared memory; the layout and the values are those of the device prelude's rank_barrier.
#include "jit/gate.h"

#include <sched.h>

#include <atomic>

#include "coconet/config.h"
#include "coconet/error.h"

namespace coconet::jit {

namespace {

constexpr std::size_t flag_bytes = 64;  // a cache line: FLAG_STRIDE words
constexpr std::size_t words_per_flag = flag_bytes / sizeof(std::uint64_t);
constexpr std::uint64_t looks_before_yield = 2000;  // some 40 us of pauses

}  // namespace

std::string seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) text += "." + std::to_string(1000 + time.count() % 1000).substr(1);
  return text;
}

Gate::Gate(Comm& comm, const Mesh& mesh) : comm_(comm) {
  std::size_t bytes = 0;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
    Axis entry;
    entry.ranks = mesh.group(comm.rank(), axis);
    entry.position = static_cast<std::uint64_t>(mesh.coordinate(comm.rank(), axis));
    entry.flags = bytes;
    bytes += entry.ranks.size() * max_blocks * flag_bytes;
    axes_.push_back(std::move(entry));
  }
  host_flags_ = bytes;
  bytes += static_cast<std::size_t>(comm.size()) * flag_bytes;
  memory_ = comm.allocate(bytes);
  spin_limit_ = comm.ranks_per_core() > 1 ? 0 : looks_before_yield;
}

std::uint64_t* Gate::flags(int rank, std::size_t offset) const {
  return reinterpret_cast<std::uint64_t*>(memory_->base(rank) + offset);
}

bool Gate::meet(bool failed) {
  using clock = std::chrono::steady_clock;
  const std::uint64_t target = 2 * ++host_epoch_;
  const auto mine = static_cast<std::size_t>(comm_.rank()) * words_per_flag;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    std::atomic_ref<std::uint64_t>(flags(rank, host_flags_)[mine])
        .store(target + (failed ? 1 : 0), std::memory_order_release);
  }
  bool any_failed = false;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const std::atomic_ref<std::uint64_t> flag(
        flags(comm_.rank(), host_flags_)[static_cast<std::size_t>(rank) * words_per_flag]);
    clock::time_point started;
    std::uint64_t found = flag.load(std::memory_order_acquire);
    for (std::uint64_t looks = 1; found < target; ++looks) {
      if (looks >= spin_limit_) sched_yield();
      if (looks % 1024 == 0) {
        if (started == clock::time_point{}) started = clock::now();
        if (clock::now() - started > config().timeout) {
          throw CommError(
              "rank " + std::to_string(comm_.rank()) + " waited " + seconds(config().timeout) +
              " s for rank " + std::to_string(rank) +
              " to enter the step; it is late, stuck or gone (COCONET_TIMEOUT_S sets the limit)");
        }
      }
      found = flag.load(std::memory_order_acquire);
    }
    any_failed = any_failed || found == target + 1;
  }
  return any_failed;
}

void Gate::fail_kernel(int axis, int blocks) {
  const Axis& entry = axes_[static_cast<std::size_t>(axis)];
  const std::uint64_t value = next_epoch(axis) * 2 + 1;
  for (const int rank : entry.ranks) {
    if (rank == comm_.rank()) continue;
    for (int block = 0; block < blocks; ++block) {
      const std::size_t index =
          static_cast<std::size_t>(block) * entry.ranks.size() + entry.position;
      std::atomic_ref<std::uint64_t>(flags(rank, entry.flags)[index * words_per_flag])
          .store(value, std::memory_order_release);
    }
  }
}

std::vector<std::uint64_t> Gate::sync_words(int axis) {
  const Axis& entry = axes_[static_cast<std::size_t>(axis)];
  std::vector<std::uint64_t> words;
  for (const int rank : entry.ranks)
    words.push_back(reinterpret_cast<std::uint64_t>(flags(rank, entry.flags)));
  words.push_back(reinterpret_cast<std::uint64_t>(flags(comm_.rank(), entry.flags)));
  words.push_back(reinterpret_cast<std::uint64_t>(&fault_));
  words.push_back(0);
  words.push_back(entry.position);
  words.push_back(static_cast<std::uint64_t>(std::chrono::nanoseconds(config().timeout).count()));
  words.push_back(spin_limit_);
  return words;
}

std::uint64_t Gate::next_epoch(int axis) {
  Axis& entry = axes_[static_cast<std::size_t>(axis)];
  const std::uint64_t epoch = entry.epoch;
  entry.epoch += 2;
  return epoch;
}

}  // namespace coconet::jit
