// Pointwise ops of the application's own. A definition is the op, as a row of pointwise.def is that
// of a built-in one: programs, schedules, kernels and the reference treat both alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet {

/// The dtypes that a pointwise op takes and gives.
enum class DTypeRule : std::uint8_t {
  numeric,   ///< operands of one dtype (not bool), which the result has
  floating,  ///< operands of one float dtype, which the result has
  compare,   ///< operands of one dtype; the result is bool
  logical,   ///< bool operands; the result is bool
  choose     ///< a bool operand and one or two more of one dtype, which the result has
};

/// What an op computes of its operands; those beyond its arity mean nothing. Several threads may
/// call it at once.
using PointwiseReference = double (*)(double a, double b, double c);

/// Writes the gradients of an op's operands into their program: one Value for each, computed from
/// the operands, the op's `result` and the `gradient` of that; an empty Value for an operand that
/// has none, such as a condition.
using PointwiseDerivative = std::function<std::vector<Value>(
    const std::vector<Value>& operands, const Value& result, const Value& gradient)>;

/// A pointwise op.
struct PointwiseDefinition {
  std::string name;  ///< in programs and their JSON: letters, digits and _, after a letter
  int arity = 1;     ///< 1, 2 or 3
  DTypeRule rule = DTypeRule::floating;  ///< of operands and result
  int cost = 1;  ///< of an element beside an addition, for the cost model: a division takes about
                 ///< 5, a function about 20
  /// One expression over the operands a, b and c in the dialect of kernels: C++'s operators without
  /// assignments, decimal numbers, which take the dtype of operands that are floats, infinity,
  /// conversions such as f32(a) and bool(a), and the functions that pointwise.def uses, such as
  /// exp_ and sqrt_. f16 and bf16 arrive as f32, and the result is converted to its dtype as by
  /// `cast`, which is also what conversions in the text do; where that is bool, it is whether the
  /// result differs from 0.
  std::string device;
  /// `device` in double on the host: the op's meaning, which kernels are checked against. It also
  /// computes the op of numbers.
  PointwiseReference reference = nullptr;
  PointwiseDerivative derivative = {};  ///< optional
};

/// An op that `define_pointwise` made: call it on values. Cheap to copy.
class COCONET_API PointwiseOp {
 public:
  /// Applies the op to one operand. Throws ProgramError for another arity, or as built-in ops do.
  [[nodiscard]] Value operator()(const Value& a) const;
  /// Applies the op to two operands.
  [[nodiscard]] Value operator()(const Value& a, const Value& b) const;
  /// Applies the op to three operands.
  [[nodiscard]] Value operator()(const Value& a, const Value& b, const Value& c) const;

  /// What it was defined by.
  [[nodiscard]] const PointwiseDefinition& definition() const { return *definition_; }

 private:
  friend COCONET_API PointwiseOp define_pointwise(PointwiseDefinition definition);
  explicit PointwiseOp(const PointwiseDefinition& definition) : definition_(&definition) {}
  void require_arity(int given) const;

  const PointwiseDefinition* definition_;  ///< lives as long as the process
};

/// Defines a pointwise op for this process; all threads may define and use ops. The text of its
/// kernels, and so their key in the cache, has the device text. A program's JSON names the op only:
/// processes that read it, and all ranks that run it, define the op first.
///
/// Defining an op twice alike gives one op. Throws ProgramError, with what
/// would be right, for a name that an op of coconet-jit or another definition has, for device text
/// that is not one expression over as many operands as the arity says, and for a derivative that
/// does not give a gradient of the right dtype and shape for every operand of f32[n].
COCONET_API PointwiseOp define_pointwise(PointwiseDefinition definition);

}  // namespace coconet
