// A program's numbers (scalars, constants, their arithmetic), evaluated on the host before a run.
#pragma once

#include "coconet/executable.h"
#include "jit/bind/rank_plan.h"

namespace coconet::jit {

class Numbers {
 public:
  /// `plan` must outlive it.
  explicit Numbers(const RankPlan& plan);

  /// Takes the run's scalars and computes all numbers. Throws BackendError naming an unknown
  /// scalar, or one that is missing or given twice, or the offset of a random sequence that is
  /// none.
  void evaluate(std::span<const ScalarValue> scalars);
  /// The value of weak node `id` after `evaluate`.
  [[nodiscard]] double operator[](ir::ValueId id) const { return values_[id]; }

 private:
  struct Instruction {
    double (*function)(double, double, double);
    ir::ValueId result, a, b, c;
  };
  struct Scalar {
    std::string name;
    ir::ValueId id;
  };
  const ir::Graph& graph_;
  Indexed<double> values_;  ///< by value id
  std::vector<Scalar> scalars_;
  std::vector<Instruction> program_;
  std::vector<ir::ValueId> draws_;  ///< random ones, whose offsets are checked
};

}  // namespace coconet::jit
