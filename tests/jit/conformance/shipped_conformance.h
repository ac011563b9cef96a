// Every shipped program under every schedule that ships for it against the reference.
#pragma once

#include <algorithm>
#include <map>

#include "coconet/programs.h"
#include "ir/access.h"
#include "jit/conformance/conformance.h"
#include "precisions.h"
#include "shipped.h"

namespace coconet::test {

inline constexpr int shipped_ranks[] = {1, 2, 3, 4, 5, 8};

/// Extents of dimensions, by name: the first of all of them are a case, and so on.
using Extents = std::map<std::string, std::vector<std::int64_t>>;

/// Of all dimensions of shipped programs. Some are 1, and few are multiples of anything.
inline const Extents shipped_extents = {{"n", {1, 2, 3, 17, 1000, 4099}},
                                        {"B", {1, 3, 1, 2, 5, 3}},
                                        {"S", {1, 1, 7, 5, 3, 13}},
                                        {"H", {1, 5, 1, 17, 33, 131}},
                                        {"F", {1, 2, 13, 11, 67, 129}}};

/// The cases of `extents` for the dimensions of `program`.
[[nodiscard]] inline std::vector<Sizes> sizes_of(const Program& program,
                                                 const Extents& extents = shipped_extents) {
  std::vector<Sizes> cases(extents.begin()->second.size());
  for (const Dim& dim : ir::graph_of(program)->dims) {
    for (std::size_t i = 0; i < cases.size(); ++i) cases[i][dim.name] = extents.at(dim.name).at(i);
  }
  return cases;
}

/// Stages of a pipeline have as many, up to 8 ranks in all, on GPUs 4: how chunks go among many is
/// the host's to check.
[[nodiscard]] inline std::vector<int> ranks_of(const programs::Shipped& program) {
  const int most = config().backend == "host" ? 8 : 4;
  std::vector<int> ranks;
  for (const int each : shipped_ranks) {
    if (each * program.stages <= most) ranks.push_back(each * program.stages);
  }
  return ranks;
}

/// Requires all of it for models of `dtype`, with several steps on each length.
inline void require_shipped_programs_conform(DType dtype) {
  for (const programs::Shipped& shipped : programs::shipped()) {
    for (const programs::Precision& precision : shipped.precisions) {
      if (precision.model != dtype) continue;
      for (const std::string_view schedule : shipped.schedules) {
        for (const int ranks : ranks_of(shipped)) {
          INFO(to_text(precision));
          const Program program = shipped.build(shipped.mesh(ranks), precision);
          require_conforms(program, shipped_schedule(shipped, schedule), ranks, sizes_of(program),
                           3);
        }
      }
    }
  }
}

}  // namespace coconet::test
