// Choosing grids: as many blocks as there is work for and as run at once.
#include "jit/bind/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/bind/segments.h"
#include "jit/codegen/tile_sync.h"
#include "jit/exchange/slices.h"

namespace coconet::jit {
namespace {

/// Blocks that have something to do, on rank 0, which has the most.
std::int64_t useful_blocks(const KernelText& text, const RankPlan& plan,
                           const sched::KernelStep& step, int threads) {
  const ir::Part part = plan.part_on(0, step.domain);
  const auto blocks_of = [&](std::int64_t elements) {
    return (part.count() + elements - 1) / elements;
  };
  if (step.is_reduction()) {
    if (!text.by_bucket) return segments_of(plan.graph(), step, text, part).parts;
    return blocks_of(segment_elements);
  }
  if (text.by_bucket) return blocks_of(bucket_elements);
  if (!text.linear && (step.in_place || !step.is_collective)) return rows_of(part);
  return blocks_of(std::int64_t{lanes_of(plan.plan(), step, abi::GPU_VECTOR_BYTES)} * threads);
}

/// What a process may have of the `blocks` that run at once on so many processors: a part of each,
/// so that it has room beside whatever kernel the others are in, unless a block needs more.
int share_of(int blocks, int processors, int processes) {
  const int of_each = blocks / processors / processes;
  return of_each > 0 ? of_each * processors : blocks / processes;
}

/// The overlap that `step` is in; null where it is in none.
const sched::Overlap* overlap_of(const sched::Plan& plan, const sched::KernelStep& step) {
  const auto found = std::ranges::find_if(plan.steps, [&](const sched::PlanStep& one) {
    return std::get_if<sched::KernelStep>(&one) == &step;
  });
  return plan.overlap_of(static_cast<std::size_t>(found - plan.steps.begin()));
}

/// Blocks of `step` on each rank that leave the other steps of its overlap room on the GPU:
/// multiprocessors of their own for all kernels, and most of the GPU for a product. How many links
/// need is not measured yet.
int blocks_beside(const Platform& platform, int processes, const sched::Plan& plan,
                  const sched::KernelStep& step) {
  constexpr int of_product = 4;  // blocks of kernels have one multiprocessor in so many
  const sched::Overlap* const overlap = overlap_of(plan, step);
  if (overlap == nullptr) return abi::MAX_BLOCKS;
  const auto steps = std::span(plan.steps).subspan(overlap->first, overlap->count);
  const std::size_t kernels = std::ranges::count_if(
      steps, [](const auto& one) { return std::holds_alternative<sched::KernelStep>(one); });
  const int parts = static_cast<int>(kernels) * platform.traits().ranks_per_launch *
                    (kernels < overlap->count ? of_product : 1);
  return std::max(1, platform.traits().processors / processes / parts);
}

/// Blocks of one lane over which `step` is spread, of the cores that a rank has. What exchanges
/// chunks has one: its order of messages is that of a block.
int blocks_on_cores(const KernelContext& context, const sched::KernelStep& step,
                    const KernelText& text) {
  constexpr std::int64_t least_elements = 16384;  // that are worth another core
  if (step.is_collective && !step.in_place) return 1;
  const std::int64_t elements = context.plan.part_on(0, step.domain).count();
  const std::int64_t useful =
      std::min(elements / least_elements, useful_blocks(text, context.plan, step, 1));
  return static_cast<int>(std::clamp<std::int64_t>(useful, 1, context.cores));
}

/// On the host, whose blocks have `threads` threads each, or are one lane.
Grid host_grid(const KernelContext& context, const sched::KernelStep& step, const KernelText& text,
               int threads) {
  const int channels = step.knobs.channels;
  // Blocks that run at once may race with each other, too: that takes two of them.
  if (threads > 1) return {.blocks = channels > 0 ? channels : 2, .threads = threads};
  const bool is_beside = overlap_of(context.plan.plan(), step) != nullptr;
  const int cores = is_beside ? 1 : context.cores;
  int blocks = channels > 0 ? channels : is_beside ? 1 : blocks_on_cores(context, step, text);
  // Blocks that wait for each other need a core each.
  if (step.is_collective && step.phases.size() > 1) blocks = std::min(blocks, cores);
  return {.blocks = blocks, .threads = 1, .cores = std::min(blocks, cores)};
}

/// The knob, or `usual`, or as many threads as the kernel can have. Throws BackendError.
int threads_of(const Platform& platform, const Kernel& kernel, const sched::KernelStep& step,
               int usual) {
  const int most = kernel.most_threads();
  const int whole_warps = most / 32 * 32;
  const int threads = step.knobs.threads > 0 ? step.knobs.threads : std::min(usual, whole_warps);
  if (threads <= most) return threads;
  throw BackendError(fmt::format(
      "kernel '{}' has the knob threads={}, but with the registers that it needs {} runs blocks of "
      "at most {} threads",
      step.name, threads, platform.traits().processor, whole_warps));
}

/// Throws BackendError where `wanted` blocks that wait for each other cannot run at once.
void require_resident(const KernelContext& context, const sched::KernelStep& step, const Grid& grid,
                      int wanted, int resident) {
  const int most = std::min(resident, int{abi::MAX_BLOCKS});
  if (!grid.resident || (wanted <= most && most > 0)) return;
  const int blocks = std::max(wanted, 1);
  throw BackendError(fmt::format(
      "kernel '{}' cannot run: its blocks wait for each other, and {} blocks of {} threads ({} for "
      "each of {} {} on a GPU) are more than the {} that {} runs at once{}; lower the knob "
      "channels or threads, or run fewer ranks on a GPU",
      step.name, blocks * grid.ranks, grid.threads, blocks, grid.ranks,
      grid.ranks == 1 ? "rank" : "ranks", resident * grid.ranks,
      context.platform.traits().processor,
      context.processes == 1 ? "" : fmt::format(" for each of {} processes", context.processes)));
}

/// A kernel's grid but for the number of blocks, and what limits that.
struct Limited {
  Grid grid;
  int resident = 0;  ///< blocks that run at once
  int beside = 0;    ///< those that leave others room
};

/// On this rank. Throws BackendError as `threads_of`.
Limited limits_of(const KernelContext& context, const Kernel& kernel,
                  const sched::KernelStep& step) {
  const auto& [comm, platform, plan, sync, tables, tiles, processes, cores] = context;
  Limited limits;
  Grid& grid = limits.grid;
  grid.ranks = platform.traits().ranks_per_launch;
  grid.resident = synchronizes_tiles(step) ||
                  (step.is_collective && (comm.size() > 1 || step.phases.size() > 1));
  // Multiprocessors are free only where no block is: the driver puts blocks on all of them in turn.
  const bool spaced = grid.resident && comm.size() > 1 && config().free_multiprocessors > 0;
  grid.threads =
      threads_of(platform, kernel, step, spaced ? kernel.most_threads() : default_threads);
  limits.resident = kernel.resident_blocks(grid.threads);
  if (grid.resident && processes > 1)
    limits.resident = share_of(limits.resident, platform.traits().processors, processes);
  limits.resident /= grid.ranks;
  limits.beside = blocks_in_budget(plan.plan(), step, plan.ranks(step.axis));
  if (spaced) {
    limits.beside =
        std::min(limits.beside, std::max(1, platform.traits().processors / processes / grid.ranks));
  }
  if (synchronizes_tiles(step))
    limits.beside = std::min(limits.beside, blocks_beside(platform, processes, plan.plan(), step));
  return limits;
}

/// Collective: the limits of each kernel, of which those of all ranks are the least.
std::vector<Limited> agree_on_limits(const KernelContext& context,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     std::span<const sched::KernelStep* const> steps) {
  std::vector<Limited> limits;
  const std::vector<std::string> of_ranks = gather_together(context.comm, [&] {
    std::string numbers;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      limits.push_back(limits_of(context, *kernels[i], *steps[i]));
      numbers += fmt::format("{} {} ", limits.back().resident, limits.back().beside);
    }
    return numbers;
  });
  for (const std::string& numbers : of_ranks) {
    std::istringstream rest(numbers);
    for (Limited& least : limits) {
      int resident = 0, beside = 0;
      rest >> resident >> beside;
      least.resident = std::min(least.resident, resident);
      least.beside = std::min(least.beside, beside);
    }
  }
  return limits;
}

/// Throws BackendError as `require_resident`.
Grid grid_within(const KernelContext& context, const Limited& limits, const KernelText& text,
                 const sched::KernelStep& step) {
  const auto& [plain, resident, beside] = limits;
  Grid grid = plain;
  const std::int64_t most =
      grid.resident ? std::min(resident, int{abi::MAX_BLOCKS}) : std::max(resident, 1);
  const std::int64_t useful =
      std::max<std::int64_t>(1, useful_blocks(text, context.plan, step, grid.threads));
  const int wanted = step.knobs.channels > 0
                         ? step.knobs.channels
                         : static_cast<int>(std::min({most, std::int64_t{beside}, useful}));
  require_resident(context, step, grid, wanted, resident);
  grid.blocks = std::max(1, wanted);
  return grid;
}

}  // namespace

int vector_bytes(const Platform& platform) {
  return platform.traits().fixed_threads == 1 ? abi::HOST_VECTOR_BYTES : abi::GPU_VECTOR_BYTES;
}

std::vector<Grid> choose_grids(const KernelContext& context,
                               std::span<const std::shared_ptr<const Kernel>> kernels,
                               std::span<const KernelText> texts) {
  std::vector<const sched::KernelStep*> steps;
  for (const sched::PlanStep& step : context.plan.plan().steps) {
    if (const auto* kernel = std::get_if<sched::KernelStep>(&step)) steps.push_back(kernel);
  }
  std::vector<Grid> grids;
  if (const int threads = context.platform.traits().fixed_threads; threads > 0) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      grids.push_back(host_grid(context, *steps[i], texts[i], threads));
    return grids;
  }
  const std::vector<Limited> limits = agree_on_limits(context, kernels, steps);
  for (std::size_t i = 0; i < steps.size(); ++i)
    grids.push_back(grid_within(context, limits[i], texts[i], *steps[i]));
  return grids;
}

}  // namespace coconet::jit
