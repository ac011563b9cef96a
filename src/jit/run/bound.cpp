// Binding a plan: texts, kernels, grids, then steps.
#include "jit/run/bound.h"

#include <fmt/format.h>

#include "coconet/config.h"
#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/plan_kernels.h"

namespace coconet::jit {

Bound::Bound(World world_, const Platform& platform_, sched::Plan plan_,
             std::map<std::string, std::int64_t> sizes, ir::Lists lists)
    : world(std::move(world_)),
      platform(platform_),
      plan(std::move(plan_), std::move(sizes), std::move(lists), world.rank()),
      sync(comm(), platform, plan),
      tensors(comm(), platform, plan),
      tables(platform, plan),
      numbers(plan),
      tiles(make_tile_counts(platform, plan)) {
  // All at once, so that several compilers can run.
  std::vector<KernelText> texts =
      kernel_texts(plan.plan(), {platform.traits().immediate, platform.traits().ranks_per_launch});
  const auto kernels = obtain_kernels(comm(), platform, texts);
  std::size_t next = 0;
  choose_overlaps();
  const KernelContext context{
      comm(), platform, plan, sync, tables, tiles, platform.processes_here(comm())};
  for (const sched::PlanStep& step : plan.plan().steps) {
    if (const auto* library = std::get_if<sched::LibraryStep>(&step)) {
      steps.push_back({library->name, "library", LibraryCollective(platform, plan, *library)});
    } else if (const auto* matmul = std::get_if<sched::MatmulStep>(&step)) {
      steps.push_back({matmul->name, "matmul", Matmul(platform, plan, *matmul)});
    } else {
      const auto& kernel = std::get<sched::KernelStep>(step);
      if (kernel.multicast) tensors.require_multicast(kernel.name);
      steps.push_back(
          {kernel.name, kernel.kind,
           KernelLaunch(context, kernel, std::move(texts[next]), kernels[next], steps.size())});
      ++next;
    }
  }
  for (; next < texts.size(); ++next) library_kernels[texts[next].name] = kernels[next];
  drop_crowded_overlaps();
}

Room Bound::room_for(const sched::Overlap& overlap) const {
  Simultaneous together{.steps = static_cast<int>(overlap.count)};
  for (std::size_t index = overlap.first; index < overlap.first + overlap.count; ++index) {
    if (!std::holds_alternative<sched::KernelStep>(plan.plan().steps[index])) {
      together.multiplies = true;
    } else if (!steps.empty()) {
      const Grid& grid = std::get<KernelLaunch>(steps[index].work).grid();
      together.blocks += grid.blocks * grid.ranks;
    }
  }
  return platform.room_for(comm(), together);
}

void Bound::choose_overlaps() {
  if (config().overlap == "off") return;
  for (const sched::Overlap& overlap : plan.plan().overlaps) {
    const Room room = room_for(overlap);
    if (room.enough) at_once.push_back(overlap);
    if (room.enough && room.shared) sync.share_cores();
  }
}

void Bound::drop_crowded_overlaps() {
  std::erase_if(at_once, [&](const sched::Overlap& overlap) {
    const Room room = room_for(overlap);
    if (!room.enough) {
      log_info(fmt::format("steps '{}' to '{}' run one after the other: {}",
                           steps[overlap.first].name, steps[overlap.first + overlap.count - 1].name,
                           room.problem));
    }
    return !room.enough;
  });
}

}  // namespace coconet::jit
