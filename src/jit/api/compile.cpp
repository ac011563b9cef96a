// The public `compile`: an automatic schedule is looked up, or measured, first.
#include <fmt/format.h>

#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/configure.h"
#include "jit/config/log.h"
#include "jit/run/compile.h"
#include "jit/tune/automatic.h"

namespace coconet {

Executable compile(const Program& program, const Schedule& schedule, const World& world,
                   const Sizes& sizes, const ParameterLists& lists, const Options& options) {
  std::shared_ptr<const Config> config;
  jit::together(jit::comm_of(world),
                [&] { config = jit::configure(options, jit::comm_of(world).config()); });
  if (!schedule.is_automatic())
    return jit::compile_scheduled(program, schedule, world, sizes, lists, {.config = config});
  const jit::ChosenSchedule chosen = jit::choose_schedule(program, world, sizes, lists);
  const std::string note =
      fmt::format("the automatic schedule is '{}'{}: {}", chosen.schedule.name(),
                  chosen.collectives_by_mpi ? ", its collectives by MPI" : "", chosen.why);
  if (world.rank() == 0) jit::log_info("program '" + program.name() + "': " + note);
  return jit::compile_scheduled(program, chosen.schedule, world, sizes, lists,
                                {{note}, chosen.collectives_by_mpi, config});
}

Executable compile(const Program& program, const World& world, const Sizes& sizes,
                   const ParameterLists& lists, const Options& options) {
  return compile(program, Schedule::automatic(), world, sizes, lists, options);
}

}  // namespace coconet
