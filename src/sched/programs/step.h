// What the step of an optimizer has once, however many tensors it updates: its scalars, dynamic
// loss scaling, and clipping by the norm of all gradients.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/graph.h"

namespace coconet::programs {

struct Training;

/// See the head of the file. Formulas reach it as Training::step.
class Step {
 public:
  const std::string optimizer;  ///< its name, for errors
  const TrainingOptions options;
  const DType wide;  ///< what is computed of all gradients: f64 where one is, else f32
  const Value lr;    ///< the scalar

  /// Of `program`, which has the scalar `lr` or gets it. Throws ProgramError where a constant of
  /// `options` is out of its range.
  Step(Program& program, std::string_view optimizer, const TrainingOptions& options, DType wide);

  /// The number of the step, from 1: of those that were taken.
  const Value& t();
  /// The scalar `t`.
  const Value& given_t();
  /// What the sum of gradients is multiplied by to be their average over micro-batches.
  const Value& per_microbatch();
  /// What `make` returns, of numbers alone: made for the first tensor, and the same for all others.
  template <class Make>
  Value once(Make make) {
    const auto found = made_once_.find(typeid(Make));
    if (found != made_once_.end()) return found->second;
    const ir::InScope none(*ir::graph_of(program_), "");
    return made_once_.emplace(typeid(Make), make()).first->second;
  }

  /// `value` times `factor`, for any of the tensors.
  Value scaled(const Value& value, double factor);
  /// `value` called `name`, unless another value of the program is.
  [[nodiscard]] Value named(const Value& value, const std::string& name) const;

  /// Unscales and clips the gradients of `tensors`, which are all that the step updates, and
  /// updates what `scaler` has, where there is one.
  void prepare(std::vector<Training>& tensors, const LossScaler* scaler);

  /// Makes the outputs that are asked for, when all else is made.
  void finish();

  [[nodiscard]] bool scales_loss() const { return finite_.has_value(); }
  /// What a state with the elements `before` gets in this step, if it gets `value` in those that
  /// are taken.
  [[nodiscard]] Value if_taken(const Value& value, const Value& before) const;

 private:
  void unscale(std::vector<Training>& tensors, const LossScaler& scaler);
  void clip(std::vector<Training>& tensors);

  Program program_;
  std::optional<Value> given_t_, t_, per_microbatch_;  ///< made when they are asked for
  std::optional<Value> finite_;   ///< with loss scaling: whether the step is taken
  std::optional<Value> skipped_;  ///< with loss scaling: the steps before that were not
  std::optional<Value> norm_;     ///< of the gradients, where it is asked for
  std::map<std::type_index, Value> made_once_;
  std::map<std::pair<int, double>, Value> scaled_;  ///< by the value's number and the factor
};

/// The scalar `name` of `program`, in no scope: the one that there is, or a new one.
[[nodiscard]] Value scalar_of(Program& program, const std::string& name);

/// The states of dynamic loss scaling, whose constants must be in their ranges.
[[nodiscard]] LossScaler made_scaler(Program& program, const LossScale& constants);
/// Throws ProgramError where one is not; `owner` has them.
void require_constants(std::string_view owner, const LossScale& constants);

}  // namespace coconet::programs
