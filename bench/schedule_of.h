// The schedules that benchmarks time a shipped program under.
#pragma once

#include <string>

#include "coconet/schedule.h"

namespace bench {

/// One of those that ship with the program `name`, such as "fused"; or, of "automatic", what
/// `compile` chooses when it is told none.
inline coconet::Schedule schedule_of(const std::string& name, const std::string& schedule) {
  if (schedule == "automatic") return coconet::Schedule::automatic();
  return coconet::Schedule::load(name + "-" + schedule + ".json");
}

}  // namespace bench
