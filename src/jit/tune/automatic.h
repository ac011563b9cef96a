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

/// Collective: what takes the place of an automatic schedule: as COCONET_TUNE says, what the tuning
/// file has, or what is measured now; and otherwise what ships with the program, or the model
/// predicts to be quick.
[[nodiscard]] ChosenSchedule choose_schedule(const Program& program, const World& world,
                                             const Sizes& sizes, const ParameterLists& lists);

}  // namespace coconet::jit
