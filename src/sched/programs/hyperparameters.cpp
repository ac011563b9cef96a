// What is said of a hyperparameter that is not what it must be.
#include "sched/programs/hyperparameters.h"

#include <fmt/format.h>

#include "coconet/error.h"

namespace coconet::programs {

void require_in_range(std::string_view optimizer, std::string_view name, double value,
                      const Range& range) {
  if (range.contains(value)) return;
  throw ProgramError(
      fmt::format("{}: {} is {}; it must be {}", optimizer, name, value, range.text));
}

}  // namespace coconet::programs
