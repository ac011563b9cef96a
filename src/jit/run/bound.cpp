// Binding a plan: texts, kernels, grids, then steps.
#include "jit/run/bound.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <functional>

#include "jit/config/log.h"
#include "jit/kernels/kernel_store.h"
#include "jit/kernels/plan_kernels.h"

namespace coconet::jit {

namespace {

/// A step of binding: what `make` makes of `args`. Says at level debug how long that took.
template <class Make, class... Args>
auto logged(const char* what, const Make& make, Args&&... args) {
  using std::chrono::steady_clock;
  struct Clock {
    const char* what;
    steady_clock::time_point begin = steady_clock::now();
    ~Clock() {
      if (std::uncaught_exceptions() != 0 || !log_enabled(LogLevel::debug)) return;
      const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
      log_debug(fmt::format("bound {} in {:.1f} ms", what, took.count()));
    }
  };
  const Clock clock{what};
  return std::invoke(make, std::forward<Args>(args)...);
}

template <class Part>
constexpr auto construct =
    [](auto&&... args) { return Part(std::forward<decltype(args)>(args)...); };

std::shared_ptr<StepSync> make_sync(Comm& comm, const Platform& platform, const RankPlan& plan,
                                    const Config& config) {
  return std::make_shared<StepSync>(comm, platform, plan, config.timeout);
}

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

// The steps of binding, in their order.
Bound::Bound(World world_, const Platform& platform_, std::shared_ptr<const Config> config_,
             std::shared_ptr<const ChosenPlan> chosen_, std::map<std::string, std::int64_t> sizes,
             ir::Lists lists, const Bound* before, std::shared_ptr<StepSync> sync_)
    : world(std::move(world_)),
      platform(platform_),
      config(std::move(config_)),
      chosen(std::move(chosen_)),
      cores(platform.cores_of(comm(), *config)),
      plan(logged("the plan of this rank", construct<RankPlan>, plan_of(chosen), std::move(sizes),
                  std::move(lists), world.rank())),
      sync(sync_ ? std::move(sync_)
                 : logged("barriers", make_sync, comm(), platform, plan, *config)),
      tensors(logged("tensors", construct<Tensors>, comm(), platform, plan,
                     before != nullptr ? &before->tensors : nullptr)),
      tables(platform, plan),
      numbers(plan),
      tiles(make_tile_counts(platform, plan)),
      kernels(before != nullptr
                  ? before->kernels
                  : logged("kernels", make_kernels, comm(), platform, plan.plan(), *config)),
      notes(chosen->notes) {
  if (chosen->shares_cores || cores.crowded) sync->share_cores();
  const KernelContext context{
      comm(), platform, plan, *sync, tables, tiles, platform.processes_here(comm()), cores.count};
  const std::vector<Grid> grids =
      logged("grids", choose_grids, context, kernels->kernels, kernels->texts);
  at_once =
      logged("overlaps", overlaps_with_room, comm(), platform, plan.plan(), grids, *config, notes);
  steps = logged("steps", &Bound::make_steps, this, context, grids);
  for (std::size_t index = grids.size(); index < kernels->texts.size(); ++index)
    library_kernels[kernels->texts[index].name] = kernels->kernels[index];
  for (const std::string& note : notes) log_info(note);
}

std::vector<Step> Bound::make_steps(const KernelContext& context, std::span<const Grid> grids) {
  std::vector<Step> made;
  std::size_t next = 0;
  for (const sched::PlanStep& step : plan.plan().steps) {
    // The steps of an overlap are threads themselves.
    const int spread = plan.plan().overlap_of(made.size()) != nullptr ? 1 : context.cores;
    if (const auto* library = std::get_if<sched::LibraryStep>(&step)) {
      made.push_back({library->name, "library",
                      LibraryCollective(comm(), platform, plan, *library,
                                        chosen->collectives_by_mpi, spread)});
    } else if (const auto* matmul = std::get_if<sched::MatmulStep>(&step)) {
      made.push_back({matmul->name, "matmul", Matmul(platform, plan, *matmul, spread)});
    } else {
      const auto& kernel = std::get<sched::KernelStep>(step);
      if (kernel.multicast) tensors.require_multicast(kernel.name);
      made.push_back({kernel.name, kernel.kind,
                      KernelLaunch(context, kernel, kernels->texts[next], kernels->kernels[next],
                                   grids[next], made.size())});
      ++next;
    }
  }
  return made;
}

}  // namespace coconet::jit
