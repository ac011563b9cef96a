// The runs of the table conformance test, made from the library's own tables: a new row of a table
// has its cases without an edit here, and the test fails where a row has none.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "jit/conformance/conformance.h"

namespace coconet::test {

/// The numbers of ranks that the table is run on.
inline constexpr int rank_counts[] = {1, 2, 3, 4, 8};

/// A program under a schedule, to be compared with the reference.
struct TableRun {
  Program program;
  Schedule schedule;
  std::vector<Checked> checks;
  /// Values that stand for a row, with a dtype, layouts and attributes, and are outputs, to be
  /// compared.
  int cases = 1;
};

/// A run that may be made; nothing where no rule of the language allows one. Making all takes
/// longer than running those that are drawn.
using PossibleRun = std::function<std::optional<TableRun>()>;

/// Every op of the tables with all that its attributes can be, on every dtype and layout that it
/// takes, unscheduled.
[[nodiscard]] std::vector<PossibleRun> runs_of_ops();
/// Every kind of kernel with every algorithm and protocol, every pair of collectives at its ends,
/// and pointwise ops and reductions between them.
[[nodiscard]] std::vector<PossibleRun> runs_of_kernels();
/// Every sequence of transformations that their candidates lead to.
[[nodiscard]] std::vector<PossibleRun> runs_of_schedules();

/// The meshes over `ranks`: one axis, and two where `ranks` is a product.
[[nodiscard]] std::vector<Mesh> meshes_of(int ranks);

}  // namespace coconet::test
