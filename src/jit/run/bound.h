// A plan bound to a rank: its memory, its numbers, and its steps ready to run.
#pragma once

#include "jit/comm/access.h"
#include "jit/run/launch.h"
#include "jit/run/library.h"
#include "jit/run/matmul.h"
#include "jit/run/overlaps.h"

namespace coconet::jit {

struct Step {
  std::string name;
  std::string kind;
  std::variant<KernelLaunch, LibraryCollective, Matmul> work;
};

/// The kernels of a plan, which serve all extents: those of its steps in order, then those that
/// library steps launch.
struct PlanKernels {
  std::vector<KernelText> texts;
  std::vector<std::shared_ptr<const Kernel>> kernels;
};

struct Bound {
  /// Collective: compiles, loads and allocates.
  Bound(World world, const Platform& platform, std::shared_ptr<const Config> config,
        ChosenPlan chosen, std::map<std::string, std::int64_t> sizes, ir::Lists lists);
  /// Collective: the same plan with other extents. It has the kernels of `before`, and the memory
  /// of tensors whose extents are the same; `before` may be destroyed afterwards.
  Bound(const Bound& before, std::map<std::string, std::int64_t> sizes, ir::Lists lists);
  /// Collective: the same with the same extents, where no rank has come to a barrier yet.
  struct Anew {};
  Bound(const Bound& before, Anew);
  Bound(const Bound&) = delete;  // its parts refer to each other
  Bound& operator=(const Bound&) = delete;

  [[nodiscard]] Comm& comm() const { return comm_of(world); }

  World world;
  const Platform& platform;
  std::shared_ptr<const Config> config;  ///< of the executable
  std::shared_ptr<const ChosenPlan> chosen;
  CoresOfRank cores;
  RankPlan plan;
  std::shared_ptr<StepSync> sync;
  Tensors tensors;
  BucketTables tables;
  Numbers numbers;
  AllTileCounts tiles;
  std::shared_ptr<const PlanKernels> kernels;
  std::vector<sched::Overlap> at_once;  ///< the overlaps whose steps do run at once
  std::vector<Step> steps;
  std::vector<std::string> notes;  ///< for people: which overlaps do not run at once, and why
  NamedKernels library_kernels;    ///< that library steps launch

 private:
  Bound(World world, const Platform& platform, std::shared_ptr<const Config> config,
        std::shared_ptr<const ChosenPlan> chosen, std::map<std::string, std::int64_t> sizes,
        ir::Lists lists, const Bound* before, std::shared_ptr<StepSync> sync);
  /// Collective. `grids` are those of the kernels in their order.
  [[nodiscard]] std::vector<Step> make_steps(const KernelContext& context,
                                             std::span<const Grid> grids);
};

}  // namespace coconet::jit
