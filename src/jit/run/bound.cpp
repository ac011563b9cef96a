// Binding a plan: texts, kernels, grids, then steps.
#include "jit/run/bound.h"

#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/run/overlaps.h"

namespace coconet::jit {

Bound::Bound(World world_, const Platform& platform_, std::shared_ptr<const Config> config_,
             ChosenPlan chosen, std::map<std::string, std::int64_t> sizes, ir::Lists lists)
    : world(std::move(world_)),
      platform(platform_),
      config(std::move(config_)),
      plan(std::move(chosen.plan), std::move(sizes), std::move(lists), world.rank()),
      sync(comm(), platform, plan, config->timeout),
      tensors(comm(), platform, plan),
      tables(platform, plan),
      numbers(plan),
      tiles(make_tile_counts(platform, plan)),
      at_once(plan.plan().overlaps),
      notes(std::move(chosen.notes)) {
  // All at once, so that several compilers can run.
  std::vector<KernelText> texts =
      kernel_texts(plan.plan(), {platform.traits().immediate, platform.traits().ranks_per_launch});
  const auto kernels = obtain_kernels(comm(), platform, texts, *config);
  std::size_t next = 0;
  if (chosen.shares_cores) sync.share_cores();
  const KernelContext context{
      comm(), platform, plan, sync, tables, tiles, platform.processes_here(comm())};
  for (const sched::PlanStep& step : plan.plan().steps) {
    if (const auto* library = std::get_if<sched::LibraryStep>(&step)) {
      steps.push_back(
          {library->name, "library",
           LibraryCollective(comm(), platform, plan, *library, chosen.collectives_by_mpi)});
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
  for (const std::string& note : notes) log_info(note);
}

Room Bound::room_for(const sched::Overlap& overlap) const {
  Simultaneous together = steps_of(plan.plan(), overlap, *config);
  for (std::size_t index = overlap.first; index < overlap.first + overlap.count; ++index) {
    if (const auto* kernel = std::get_if<KernelLaunch>(&steps[index].work))
      together.blocks += kernel->grid().blocks * kernel->grid().ranks;
  }
  return platform.room_for(comm(), together);
}

void Bound::drop_crowded_overlaps() {
  std::erase_if(at_once, [&](const sched::Overlap& overlap) {
    const Room room = room_for(overlap);
    if (!room.enough) notes.push_back(describe_dropped(plan.plan(), overlap, room.problem));
    return !room.enough;
  });
}

}  // namespace coconet::jit
