// Every shipped program under every schedule that ships for it against the reference.
#pragma once

#include <algorithm>

#include "coconet/programs.h"
#include "jit/conformance.h"

namespace coconet::test {

inline constexpr int shipped_ranks[] = {1, 2, 3, 4, 5, 8};
inline constexpr std::int64_t shipped_lengths[] = {1, 2, 3, 17, 1000, 4099};

[[nodiscard]] inline Schedule shipped_schedule(const programs::Shipped& program,
                                               std::string_view schedule) {
  return Schedule::load(std::string(program.name) + "-" + std::string(schedule) + ".json");
}

[[nodiscard]] inline bool takes(const programs::Shipped& program, DType dtype) {
  return std::find(program.dtypes.begin(), program.dtypes.end(), dtype) != program.dtypes.end();
}

/// Mixed precision changes the dtypes in kernels, not how they go across ranks: one rank, an even and an odd number.
[[nodiscard]] inline std::span<const int> ranks_of(const programs::Shipped& program) {
  const std::span<const int> ranks = shipped_ranks;
  return program.name.ends_with("_mixed") ? ranks.first(3) : ranks;
}

/// Requires all of it for `dtype`, with several steps on each length.
inline void require_shipped_programs_conform(DType dtype) {
  for (const programs::Shipped& shipped : programs::shipped()) {
    if (!takes(shipped, dtype)) continue;
    for (const std::string_view schedule : shipped.schedules) {
      for (const int ranks : ranks_of(shipped)) {
        INFO(to_string(dtype));
        std::vector<Sizes> sizes;
        for (const std::int64_t n : shipped_lengths) sizes.push_back({{"n", n}});
        require_conforms(shipped.build(Mesh({{"world", ranks}}), dtype),
                         shipped_schedule(shipped, schedule), ranks, sizes, 3);
      }
    }
  }
}

}  // namespace coconet::test
