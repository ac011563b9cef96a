// Automatic schedules: the quickest that is known of a program, for ranks, a machine and sizes.
#pragma once

#include <string>

#include "coconet/executable.h"

namespace coconet::jit {

struct ChosenSchedule {
  Schedule schedule;
  std::string why;  ///< for people: where it comes from
  bool collectives_by_mpi = false;
};

/// Collective: what takes the place of `schedule`, which is automatic, as COCONET_TUNE says; one
/// without steps where nothing is known.
[[nodiscard]] ChosenSchedule choose_schedule(const Program& program, const Schedule& schedule,
                                             const World& world, const Sizes& sizes,
                                             const ParameterLists& lists);

}  // namespace coconet::jit
