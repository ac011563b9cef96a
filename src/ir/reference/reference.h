// The reference interpreter: runs a program naively, in double, all ranks in one process. Every
// value is rounded to its dtype once, where it is produced; sums run in rank order and index order.
// It is the oracle of all tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/lists.h"

namespace coconet::ir {

/// A rank's part of a tensor, row-major.
using Data = std::vector<double>;
/// One tensor on all ranks: element [rank].
using RankData = Indexed<Data>;

class Reference {
 public:
  /// `sizes` and `lists` as in `resolve_sizes`.
  Reference(const Graph& graph, const Sizes& sizes, const Lists& lists = {});

  /// Sets an input or a state: one part per rank, each `part_of` long. Values are rounded to the
  /// dtype.
  void set(const std::string& name, RankData parts);
  /// One step. States that were never set are zero. Throws ProgramError for a missing input or
  /// scalar.
  void run(const std::map<std::string, double>& scalars);
  /// A state or output after the steps so far.
  [[nodiscard]] const RankData& get(const std::string& name) const;
  /// The part of the value `id` that `rank` holds.
  [[nodiscard]] Part part(ValueId id, int rank) const;

 private:
  [[nodiscard]] RankData zeros(ValueId id) const;

  const Graph graph_;
  Sizes sizes_;
  Lists lists_;
  std::map<std::string, RankData>
      tensors_;  ///< inputs that were set, states, and outputs of the last run
};

/// Value of a weak node (see Node::weak) from its operands' values, and from `scalars` and `sizes`.
[[nodiscard]] double evaluate_weak(const Graph& graph, ValueId id,
                                   const std::map<std::string, double>& scalars,
                                   const Sizes& sizes);

}  // namespace coconet::ir
