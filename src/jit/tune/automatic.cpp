// Looking automatic schedules up, and measuring those that are not there.
#include "jit/tune/automatic.h"

#include <fmt/format.h>

#include "coconet/config.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/lists.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/tune/tuner.h"
#include "jit/tune/tuning_file.h"
#include "sched/schedule.h"

namespace coconet::jit {

ChosenSchedule choose_schedule(const Program& program, const Schedule& schedule, const World& world,
                               const Sizes& sizes, const ParameterLists& lists) {
  if (comm_of(world).config().tune == "off") return {Schedule("none"), "COCONET_TUNE is off"};
  Comm& comm = comm_of(world);
  const std::set<std::string>& sliceable = *sched::steps_of(schedule).automatic;
  const Platform* platform = nullptr;
  Sizes resolved;
  std::string digest;
  together(comm, [&] {
    platform = &platform_of(comm);
    resolved = ir::resolve_sizes(*ir::graph_of(program), sizes, lists);
    digest = digest_of(program, sliceable);
  });
  TuningFile file = read_tuning(comm, *platform, comm.config());
  const auto look = [&]() -> const TuningFile::Choice* {
    const TuningFile::TunedProgram* const known = file.find(digest);
    return known == nullptr ? nullptr : nearest_choice(*known, resolved);
  };
  const TuningFile::Choice* choice = look();
  if (file.on_disk == TuningFile::OnDisk::unreadable)
    return {Schedule("none"), "the tuning file is ignored: " + file.problem};
  if (choice == nullptr && comm.config().tune == "on") {
    (void)tune_and_keep(program, world, {resolved}, {.sliceable = sliceable, .lists = lists});
    file = read_tuning(comm, *platform, comm.config());
    choice = look();
  }
  if (choice == nullptr) {
    return {Schedule("none"),
            fmt::format("nothing is known of program '{}' at these sizes; `coconet tune` measures, "
                        "and so does COCONET_TUNE=on",
                        program.name())};
  }
  return {
      Schedule::parse(choice->schedule),
      fmt::format("it took {:.2f} of the time without a schedule, {:.4g} ms, when it was measured",
                  choice->over_unfused, choice->ms),
      choice->collectives_by_mpi};
}

}  // namespace coconet::jit
