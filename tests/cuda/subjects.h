// Programs that ship, under the schedules that ship with them, as tests run them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coconet/coconet.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "precisions.h"
#include "shipped.h"

namespace coconet::test {

/// A program that ships, under a schedule of its own.
struct Subject {
  const programs::Shipped* program = nullptr;
  std::string schedule;
  programs::Precision precision = f32;

  [[nodiscard]] Program build(int ranks) const {
    return program->build(program->mesh(ranks), precision);
  }
  [[nodiscard]] Schedule load() const { return shipped_schedule(*program, schedule); }
};

[[nodiscard]] inline std::vector<Subject> all_subjects() {
  std::vector<Subject> all;
  for (const auto& [program, precision] : usual_programs()) {
    for (const std::string_view schedule : program.schedules)
      all.push_back({&program, std::string(schedule), precision});
  }
  return all;
}

/// The extents of a shipped program's dimensions; those of matrices make several tiles of a
/// product.
[[nodiscard]] inline Sizes sizes_of(const Program& program, std::int64_t n) {
  const Sizes extents = {{"n", n}, {"B", 3}, {"S", 100}, {"H", 33}, {"F", 20}};
  Sizes sizes;
  for (const Dim& dim : ir::graph_of(program)->dims) sizes[dim.name] = extents.at(dim.name);
  return sizes;
}

}  // namespace coconet::test
