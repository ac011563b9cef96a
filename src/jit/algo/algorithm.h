// Algorithms: skeletons of collectives over peer memory, as kernel text with holes for the computation. Adding
// one is a row in algorithms.def, a file here and a header in device/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coconet/program.h"

namespace coconet::jit {

/// What a skeleton needs to know of its kernel.
struct Skeleton {
  int ranks = 1;      ///< ranks along the axis
  std::string width;  ///< the lanes of an access, in the loop: "N"
};

struct Algorithm {
  std::string_view name;
  std::string_view protocol;  ///< the synchronisation protocol that it is written for
  std::string_view header;    ///< the prelude header that its text uses, in device/

  /// Text before the loop: after it, every rank's operand may be read.
  std::string (*open)();
  /// Expression: a vector of the reduction of all ranks' `pointers` at `index`.
  std::string (*reduce)(const Skeleton& skeleton, Reduction reduction, const std::string& pointers,
                        const std::string& index);
  /// Statement: writes vector `value` to all ranks' `pointers` at `index`.
  std::string (*gather)(const Skeleton& skeleton, const std::string& pointers,
                        const std::string& index, const std::string& value);
  /// Text after the loop: after it, every rank's results are complete and all operands may be overwritten.
  std::string (*close)();
};

[[nodiscard]] std::span<const Algorithm* const> algorithms();
/// The algorithm called `name`; the first of the table when `name` is empty. Throws ScheduleError.
[[nodiscard]] const Algorithm& find_algorithm(std::string_view name);

/// The prelude's name of a reduction's operator: "sum_of". Mean is a sum that the caller divides.
[[nodiscard]] std::string_view device_operator(Reduction reduction);

#define COCONET_ALGORITHM(name) extern const Algorithm name##_algorithm;
#include "jit/algo/algorithms.def"
#undef COCONET_ALGORITHM

}  // namespace coconet::jit
