// Launches of kernels.
#include "jit/run/launch.h"

namespace coconet::jit {

KernelLaunch::KernelLaunch(const KernelContext& context, const sched::KernelStep& step,
                           const KernelText& text, std::shared_ptr<const Kernel> kernel, Grid grid,
                           std::size_t number)
    : step_(step),
      text_(text),
      kernel_(std::move(kernel)),
      grid_(grid),
      memory_(context.comm, context.platform, context.plan, step, grid_),
      segments_(context.platform, context.plan, context.tables, step, text_),
      accesses_(context.plan, step, text_, memory_.slices()),
      arguments_(context, step, text_, grid_.blocks, memory_, segments_, number) {}

void KernelLaunch::prepare(const Tensors& tensors, const Numbers& numbers, StepSync& sync,
                           std::uint64_t* waited) {
  if (tensors_version_ != tensors.version()) arguments_.refresh(tensors, accesses_.mode(tensors));
  tensors_version_ = tensors.version();
  const std::uint64_t epoch = step_.is_collective ? sync.next_epoch(axis(), barriers()) : 0;
  arguments_.begin_launch(numbers, epoch, waited);
}

}  // namespace coconet::jit
