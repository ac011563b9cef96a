// Flags in shared memory; the layout and the values are those of the device prelude's rank_barrier.
#include "jit/bind/step_sync.h"

#include <sched.h>

#include <atomic>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/platform/peer_memory.h"

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

StepSync::StepSync(Comm& comm, const Platform& platform, const Mesh& mesh)
    : comm_(comm),
      fault_memory_(platform.allocate_on_host(sizeof(Fault))),
      fault_(reinterpret_cast<Fault*>(fault_memory_->data())) {
  std::size_t bytes = 0;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
    Axis entry;
    entry.ranks = mesh.group(comm.rank(), axis);
    entry.position = static_cast<std::uint64_t>(mesh.coordinate(comm.rank(), axis));
    entry.flags = bytes;
    bytes += entry.ranks.size() * max_blocks * flag_bytes;
    axes_.push_back(std::move(entry));
  }
  if (&comm.node() == &comm)
    host_flags_ = comm.allocate(static_cast<std::size_t>(comm.size()) * flag_bytes);
  if (comm.size() == 1) {
    own_flags_ = platform.allocate(bytes);
  } else {
    kernel_flags_ =
        platform.device() == nullptr ? comm.allocate(bytes) : allocate_on_devices(comm, bytes);
  }
  spin_limit_ = comm.ranks_per_core() > 1 ? 0 : looks_before_yield;
}

Fault StepSync::fault() const {
  return *fault_;
}

bool StepSync::faulty() const {
  return std::atomic_ref(fault_->code).load(std::memory_order_relaxed) != 0;
}

std::uint64_t* StepSync::flags(const PeerMemory& memory, int rank, std::size_t offset) {
  std::byte* const block = memory.base(rank);
  return block == nullptr ? nullptr : reinterpret_cast<std::uint64_t*>(block + offset);
}

bool StepSync::meet(bool failed) {
  if (!host_flags_) return comm_.any_failed(failed);
  using clock = std::chrono::steady_clock;
  const std::uint64_t target = 2 * ++host_epoch_;
  const auto mine = static_cast<std::size_t>(comm_.rank()) * words_per_flag;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    std::atomic_ref<std::uint64_t>(flags(*host_flags_, rank, 0)[mine])
        .store(target + (failed ? 1 : 0), std::memory_order_release);
  }
  bool any_failed = false;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const std::atomic_ref<std::uint64_t> flag(
        flags(*host_flags_, comm_.rank(), 0)[static_cast<std::size_t>(rank) * words_per_flag]);
    clock::time_point started;
    std::uint64_t found = flag.load(std::memory_order_acquire);
    for (std::uint64_t looks = 1; found < target; ++looks) {
      if (looks >= spin_limit_) sched_yield();
      if (looks % 1024 == 0) {
        comm_.require_nobody_failed();
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

void StepSync::fail_kernel(int axis, int blocks, int barriers) {
  const Axis& entry = axes_[static_cast<std::size_t>(axis)];
  const std::uint64_t value = next_epoch(axis, barriers) * 2 + 1;
  for (const int rank : entry.ranks) {
    if (rank == comm_.rank()) continue;
    for (int block = 0; block < blocks; ++block) {
      const std::size_t index =
          static_cast<std::size_t>(block) * entry.ranks.size() + entry.position;
      std::atomic_ref<std::uint64_t>(
          flags(*kernel_flags_, rank, entry.flags)[index * words_per_flag])
          .store(value, std::memory_order_release);
    }
  }
}

std::vector<std::uint64_t> StepSync::sync_words(int axis, std::size_t step) {
  const Axis& entry = axes_[static_cast<std::size_t>(axis)];
  const auto flags_of = [&](int rank) {
    return own_flags_ ? reinterpret_cast<std::uint64_t>(own_flags_->data() + entry.flags)
                      : reinterpret_cast<std::uint64_t>(flags(*kernel_flags_, rank, entry.flags));
  };
  std::vector<std::uint64_t> words;
  for (const int rank : entry.ranks) words.push_back(flags_of(rank));
  words.push_back(flags_of(comm_.rank()));
  words.push_back(reinterpret_cast<std::uint64_t>(fault_));
  words.push_back(0);
  words.push_back(entry.position);
  words.push_back(static_cast<std::uint64_t>(std::chrono::nanoseconds(config().timeout).count()));
  words.push_back(spin_limit_);
  words.push_back(step);
  return words;
}

std::uint64_t StepSync::next_epoch(int axis, int barriers) {
  Axis& entry = axes_[static_cast<std::size_t>(axis)];
  const std::uint64_t epoch = entry.epoch;
  entry.epoch += static_cast<std::uint64_t>(barriers);
  return epoch;
}

}  // namespace coconet::jit
