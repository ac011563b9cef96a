// Programs with steps to executables; `coconet::compile` (jit/api) chooses the steps where they are
// automatic.
#pragma once

#include "coconet/config.h"
#include "coconet/executable.h"
#include "jit/comm/worlds/nodes.h"
#include "sched/plan.h"

namespace coconet::jit {

/// Throws ProgramError when `program` is for another number of ranks.
void require_mesh(const Program& program, const World& world);
/// Throws ScheduleError when kernels of `plan` would reach into the memory of another node.
void require_on_nodes(const sched::Plan& plan, const Nodes& nodes);

/// What a schedule does not say.
struct CompileChoices {
  std::vector<std::string> notes = {};  ///< for reports
  bool collectives_by_mpi = false;      ///< library collectives on the host, whatever the bytes
  std::shared_ptr<const Config> config = {};  ///< null: the world's
};

/// `coconet::compile` for a schedule that is not automatic.
[[nodiscard]] Executable compile_scheduled(const Program& program, const Schedule& schedule,
                                           const World& world, const Sizes& sizes,
                                           const ParameterLists& lists,
                                           const CompileChoices& choices = {});

}  // namespace coconet::jit
