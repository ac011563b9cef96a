// Choosing grids: as many blocks as there is work for and as run at once.
#include "jit/bind/grid.h"

#include <algorithm>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/bind/bucket_table.h"
#include "jit/bind/step_sync.h"
#include "jit/codegen/pacing.h"

namespace coconet::jit {

namespace {

/// Small blocks leave fewer registers of a multiprocessor unused; not measured on GPUs yet.
constexpr int default_threads = 256;

/// Blocks that have something to do, on the rank that has the most: blocks are of rank 0's size or smaller.
std::int64_t useful_blocks(const KernelText& text, const RankPlan& plan,
                           const sched::KernelStep& step, int threads) {
  const ir::Part part = plan.part_on(0, step.domain);
  if (!step.is_reduction()) {
    if (text.by_bucket) return (part.count() + bucket_elements - 1) / bucket_elements;
    if (!text.linear && (step.in_place || !step.is_collective))
      return part.extent.empty() || part.count() == 0 ? 0 : part.count() / part.extent.back();
    const auto of_block = static_cast<std::int64_t>(lanes_of(plan.plan(), step)) * threads;
    return (part.count() + of_block - 1) / of_block;
  }
  // One block computes one result.
  std::int64_t results = 1;
  const std::vector<int>& reduced = plan.graph().at(step.reductions().front()).attributes.dims;
  for (std::size_t d = 0; d < part.extent.size(); ++d) {
    if (!std::binary_search(reduced.begin(), reduced.end(), static_cast<int>(d)))
      results *= part.extent[d];
  }
  return results;
}

/// Collective: the least of all ranks' counts.
int least_of(Comm& comm, int count) {
  for (const std::string& other : comm.all_gather(std::to_string(count)))
    count = std::min(count, std::stoi(other));
  return count;
}

/// Blocks of `step` on each rank that leave the other steps of its overlap room on the GPU: multiprocessors of their own
/// for all kernels, and most of the GPU for a product. How many links need is not measured yet.
int blocks_beside(const Platform& platform, const sched::Plan& plan,
                  const sched::KernelStep& step) {
  constexpr int of_product = 4;  // blocks of kernels have one multiprocessor in so many
  if (config().overlap == "off") return max_blocks;
  for (const sched::Overlap& overlap : plan.overlaps) {
    std::size_t kernels = 0;
    bool is_one = false;
    for (std::size_t index = overlap.first; index < overlap.first + overlap.count; ++index) {
      const auto* kernel = std::get_if<sched::KernelStep>(&plan.steps[index]);
      if (kernel == nullptr) continue;
      ++kernels;
      is_one = is_one || kernel == &step;
    }
    if (!is_one) continue;
    const int parts = static_cast<int>(kernels) * platform.ranks_per_launch() *
                      (kernels < overlap.count ? of_product : 1);
    return std::max(1, platform.device()->multiprocessors() / parts);
  }
  return max_blocks;
}

}  // namespace

std::size_t lanes_of(const sched::Plan& plan, const sched::KernelStep& step) {
  std::size_t widest = 1;
  const auto widen = [&](const auto& accesses) {
    for (const auto& access : accesses) {
      const auto& buffer = plan.buffers[static_cast<std::size_t>(access.buffer)];
      widest = std::max(widest, size_of(buffer.dtype));
    }
  };
  for (const sched::KernelStep::Phase& phase : step.phases) {
    widen(phase.loads);
    widen(phase.stores);
  }
  const std::size_t bytes = step.knobs.vector_bytes == 0
                                ? widest_access
                                : static_cast<std::size_t>(step.knobs.vector_bytes);
  return std::max<std::size_t>(1, bytes / widest);
}

Grid choose_grid(Comm& comm, const Platform& platform, const Kernel& kernel, const KernelText& text,
                 const RankPlan& plan, const sched::KernelStep& step) {
  Grid grid;
  if (platform.device() == nullptr) {
    grid.threads = config().host_threads;
    // Blocks that run at once may race with each other, too: that takes two of them.
    grid.blocks = step.knobs.channels > 0 ? step.knobs.channels : grid.threads > 1 ? 2 : 1;
    // Else they run one after the other, and none can wait for another one of its rank.
    if (grid.threads == 1 && step.is_collective && step.phases.size() > 1) grid.blocks = 1;
    return grid;
  }
  grid.ranks = platform.ranks_per_launch();
  grid.resident =
      is_paced(step) || (step.is_collective && (comm.size() > 1 || step.phases.size() > 1));
  int resident = 0;
  const auto examine = [&] {
    const int most = kernel.most_threads();
    grid.threads =
        step.knobs.threads > 0 ? step.knobs.threads : std::min(default_threads, most / 32 * 32);
    if (grid.threads > most) {
      throw BackendError("kernel '" + step.name +
                         "' has the knob threads=" + std::to_string(grid.threads) +
                         ", but with the registers that it needs " + platform.device()->name() +
                         " runs blocks of at most " + std::to_string(most / 32 * 32) + " threads");
    }
    resident = kernel.resident_blocks(grid.threads) / grid.ranks;
  };
  together(comm, examine);
  resident = least_of(comm, resident);
  const int most = grid.resident ? std::min(resident, max_blocks) : std::max(resident, 1);
  const std::int64_t useful =
      std::max<std::int64_t>(1, useful_blocks(text, plan, step, grid.threads));
  const int beside =
      is_paced(step) ? least_of(comm, blocks_beside(platform, plan.plan(), step)) : max_blocks;
  const int wanted = step.knobs.channels > 0
                         ? step.knobs.channels
                         : static_cast<int>(std::min<std::int64_t>({most, beside, useful}));
  if (grid.resident && (wanted > most || most == 0)) {
    throw BackendError(
        "kernel '" + step.name + "' cannot run: its blocks wait for each other, and " +
        std::to_string(std::max(wanted, 1) * grid.ranks) + " blocks of " +
        std::to_string(grid.threads) + " threads (" + std::to_string(std::max(wanted, 1)) +
        " for each of " + std::to_string(grid.ranks) + (grid.ranks == 1 ? " rank" : " ranks") +
        " on a GPU) are more than the " + std::to_string(resident * grid.ranks) + " that " +
        platform.device()->name() +
        " runs at once; lower the knob channels or threads, or run fewer ranks on a GPU");
  }
  grid.blocks = std::max(1, wanted);
  return grid;
}

}  // namespace coconet::jit
