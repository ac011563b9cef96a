// Shared flags by which the ranks of an executable meet, inside kernels and on the host, and learn
// that one of them failed or is late.
#pragma once

#include <atomic>
#include <chrono>

#include "jit/bind/rank_plan.h"
#include "jit/platform/platform.h"

namespace coconet::jit {

/// "60" or "0.5", for messages.
[[nodiscard]] std::string seconds(std::chrono::milliseconds time);

class StepSync {
 public:
  /// Collective. `timeout` bounds every wait for another rank. It serves all extents of the plan.
  StepSync(Comm& comm, const Platform& platform, const RankPlan& plan,
           std::chrono::milliseconds timeout);

  /// What ranks find when they meet before a step.
  enum class Meeting { agree, differ, one_failed };
  /// Host side: waits for every rank of the world. `failed` tells the others that this rank cannot
  /// run the step, and `given` is what it would run it with. Throws as `Barrier::wait` does.
  [[nodiscard]] Meeting meet(bool failed, std::uint64_t given = 0);

  /// Instead of launching a kernel of `blocks` whose ranks first meet at barrier `first` of
  /// `barriers`, which from 1 on is one of all blocks together: makes the others' give up there.
  void fail_kernel(int axis, int blocks, int barriers, int first);

  /// What the kernel of step `step` takes along `axis`, but for the epoch; and the flags of all
  /// ranks of the group, null on other nodes, to which no kernel with barriers reaches.
  [[nodiscard]] abi::SyncHead argument(int axis, std::size_t step) const;
  [[nodiscard]] std::vector<abi::u64*> flags_of_ranks(int axis) const;
  /// From here on who waits gives the core away at once, because what it waits for may need it.
  void share_cores() { spin_limit_ = 0; }
  /// The epoch of the next kernel along `axis`, which uses `barriers` of them.
  [[nodiscard]] std::uint64_t next_epoch(int axis, int barriers) {
    return std::exchange(axes_[axis].epoch, axes_[axis].epoch + barriers);
  }

  /// Whether a kernel has reported a fault; the report is whole once the kernel has ended.
  [[nodiscard]] bool faulty() const {
    return std::atomic_ref(fault_->code).load(std::memory_order_relaxed) != 0;
  }
  /// Takes that report.
  [[nodiscard]] abi::Fault take_fault() { return std::exchange(*fault_, {}); }

 private:
  struct Axis {
    std::size_t flags = 0;  ///< offset into every rank's block of `kernel_flags_`
    std::uint64_t epoch = 1;
  };
  /// The flags that kernels raise on `rank` along `axis`; null where it is on another node.
  [[nodiscard]] abi::u64* kernel_flags(int axis, int rank) const;
  /// The flag that `of` raises on `rank` where the ranks meet on the host.
  [[nodiscard]] std::atomic_ref<abi::u64> host_flag(int rank, int of) const;

  /// This rank's group along `axis`, in axis order.
  [[nodiscard]] std::vector<int> group(int axis) const { return mesh_.group(comm_.rank(), axis); }
  /// From one of its ranks to the next one.
  [[nodiscard]] int stride(int axis) const;
  [[nodiscard]] int position(int axis) const { return mesh_.coordinate(comm_.rank(), axis); }

  Comm& comm_;
  Mesh mesh_;
  std::chrono::milliseconds timeout_;
  Indexed<Axis> axes_;
  std::uint64_t host_epoch_ = 0;
  std::uint64_t spin_limit_ = 0;
  std::shared_ptr<PeerMemory> host_flags_;    ///< of `meet` in a world of one node
  std::shared_ptr<PeerMemory> kernel_flags_;  ///< where kernels run; null where none waits
  std::shared_ptr<Memory> own_flags_;         ///< the same, in a world of one rank
  std::shared_ptr<Memory> fault_memory_;
  abi::Fault* fault_;
  std::shared_ptr<Memory> notices_memory_;  ///< where kernels do not see the world's table itself
  std::shared_ptr<void> mirrored_;          ///< keeps `notices_memory_` like it
  const abi::u64* notices_;
};

}  // namespace coconet::jit
