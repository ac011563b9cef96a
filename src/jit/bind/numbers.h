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
  /// A digest of the scalars after `evaluate`, of abi::GIVEN_BITS bits: other scalars have another
  /// one, but for one in a million.
  [[nodiscard]] std::uint64_t given() const { return given_; }
  /// "lr=0.1, t=3": the scalars.
  [[nodiscard]] std::string text() const;
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
  std::uint64_t given_ = 0;
  std::vector<Instruction> program_;
  std::vector<ir::ValueId> draws_;  ///< random ones, whose offsets are checked
};

}  // namespace coconet::jit
