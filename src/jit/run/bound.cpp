// Binding a plan: texts, kernels, grids, then steps.
#include "jit/run/bound.h"

#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/run/overlaps.h"

namespace coconet::jit {

namespace {

/// Collective. All at once, so that several compilers can run.
std::shared_ptr<const PlanKernels> make_kernels(Comm& comm, const Platform& platform,
                                                const sched::Plan& plan, const Config& config) {
  auto made = std::make_shared<PlanKernels>();
  made->texts =
      kernel_texts(plan, {platform.traits().immediate, platform.traits().ranks_per_launch});
  made->kernels = obtain_kernels(comm, platform, made->texts, config);
  return made;
}

}  // namespace

Bound::Bound(World world_, const Platform& platform_, std::shared_ptr<const Config> config_,
             ChosenPlan chosen_, std::map<std::string, std::int64_t> sizes, ir::Lists lists)
    : Bound(std::move(world_), platform_, std::move(config_),
            std::make_shared<ChosenPlan>(std::move(chosen_)), std::move(sizes), std::move(lists),
            nullptr, nullptr) {}

Bound::Bound(const Bound& before, std::map<std::string, std::int64_t> sizes, ir::Lists lists)
    : Bound(before.world, before.platform, before.config, before.chosen, std::move(sizes),
            std::move(lists), &before, before.sync) {}

Bound::Bound(const Bound& before, Anew)
    : Bound(before.world, before.platform, before.config, before.chosen, before.plan.sizes(),
            before.plan.lists(), &before, nullptr) {}

Bound::Bound(World world_, const Platform& platform_, std::shared_ptr<const Config> config_,
             std::shared_ptr<const ChosenPlan> chosen_, std::map<std::string, std::int64_t> sizes,
             ir::Lists lists, const Bound* before, std::shared_ptr<StepSync> sync_)
    : world(std::move(world_)),
      platform(platform_),
      config(std::move(config_)),
      chosen(std::move(chosen_)),
      plan(plan_of(chosen), std::move(sizes), std::move(lists), world.rank()),
      sync(sync_ ? std::move(sync_)
                 : std::make_shared<StepSync>(comm(), platform, plan, config->timeout)),
      tensors(comm(), platform, plan, before != nullptr ? &before->tensors : nullptr),
      tables(platform, plan),
      numbers(plan),
      tiles(make_tile_counts(platform, plan)),
      kernels(before != nullptr ? before->kernels
                                : make_kernels(comm(), platform, plan.plan(), *config)),
      at_once(plan.plan().overlaps),
      notes(chosen->notes) {
  std::size_t next = 0;
  if (chosen->shares_cores) sync->share_cores();
  const KernelContext context{
      comm(), platform, plan, *sync, tables, tiles, platform.processes_here(comm())};
  const std::vector<Grid> grids = choose_grids(context, kernels->kernels, kernels->texts);
  for (const sched::PlanStep& step : plan.plan().steps) {
    if (const auto* library = std::get_if<sched::LibraryStep>(&step)) {
      steps.push_back(
          {library->name, "library",
           LibraryCollective(comm(), platform, plan, *library, chosen->collectives_by_mpi)});
    } else if (const auto* matmul = std::get_if<sched::MatmulStep>(&step)) {
      steps.push_back({matmul->name, "matmul", Matmul(platform, plan, *matmul)});
    } else {
      const auto& kernel = std::get<sched::KernelStep>(step);
      if (kernel.multicast) tensors.require_multicast(kernel.name);
      steps.push_back({kernel.name, kernel.kind,
                       KernelLaunch(context, kernel, kernels->texts[next], kernels->kernels[next],
                                    grids[next], steps.size())});
      ++next;
    }
  }
  for (; next < kernels->texts.size(); ++next)
    library_kernels[kernels->texts[next].name] = kernels->kernels[next];
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
