// A kernel ready to launch on this rank: its code, and its argument block.
#pragma once

#include "jit/bind/kernel_accesses.h"
#include "jit/bind/kernel_arguments.h"

namespace coconet::jit {

class KernelLaunch {
 public:
  /// Collective. Of `step`, which is step `number` of the plan, and of `text`, which outlives it.
  KernelLaunch(const KernelContext& context, const sched::KernelStep& step, const KernelText& text,
               std::shared_ptr<const Kernel> kernel, Grid grid, std::size_t number);

  /// Fills the argument block for a run, which all ranks along the axis then launch. Its blocks add
  /// the nanoseconds that they wait to `*waited`; null: nowhere.
  void prepare(const Tensors& tensors, const Numbers& numbers, StepSync& sync,
               std::uint64_t* waited);
  [[nodiscard]] std::span<const std::uint64_t> words() const { return arguments_.words(); }
  [[nodiscard]] const Kernel& kernel() const { return *kernel_; }
  [[nodiscard]] const Grid& grid() const { return grid_; }

  [[nodiscard]] const KernelText& text() const { return text_; }
  /// Whether its ranks meet before they touch anything, so that `refuse` tells all of them.
  [[nodiscard]] bool begins_with_barrier() const { return step_.in_place; }
  /// Instead of a launch: makes the other ranks' kernels give up before they touch anything.
  void refuse(StepSync& sync) {
    sync.fail_kernel(axis(), grid_.blocks, barriers(), text_.first_barrier);
    arguments_.skip_launch();
  }
  /// Barriers among ranks, the first and the last of a kernel in place included.
  [[nodiscard]] int barriers() const { return text_.barriers; }
  [[nodiscard]] int axis() const { return step_.axis; }
  /// Bytes that this rank reads and writes in a run, peers' memory included.
  [[nodiscard]] std::uint64_t bytes(const Tensors&) const { return accesses_.bytes(); }
  /// Bytes of this rank's memory through which its ranks exchange chunks and totals.
  [[nodiscard]] std::uint64_t exchange_bytes() const { return memory_.bytes(); }

 private:
  const sched::KernelStep& step_;
  const KernelText& text_;
  std::shared_ptr<const Kernel> kernel_;
  Grid grid_;
  ExchangeMemory memory_;
  SegmentMemory segments_;
  KernelAccesses accesses_;
  KernelArguments arguments_;
  std::uint64_t tensors_version_ = 0;
};

}  // namespace coconet::jit
