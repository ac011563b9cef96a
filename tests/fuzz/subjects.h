// The programs that schedules are applied to.
#pragma once

#include <string>
#include <vector>

#include "coconet/programs.h"

namespace coconet::fuzz {

/// A shipped program, small and quick to lower, and the schedules that ship with it.
struct Subject {
  Program program;
  std::vector<std::string> schedules;  ///< texts, of src/sched/shipped
};

/// An optimizer, one over nodes, LAMB and the blocks of transformers: what has other
/// transformations.
[[nodiscard]] const std::vector<Subject>& subjects();

}  // namespace coconet::fuzz
