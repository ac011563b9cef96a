// Functions that are composed of the ops of coconet/program.h, and the gradients of all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet {

// ---- normalisations: composed of reductions, so that the dimension may be sliced; 16-bit floats
// are computed in f32

/// exp(value) divided by its sum over dimension `dim`, computed from the distance to the maximum so
/// that nothing overflows. A negative dimension counts from the end.
[[nodiscard]] COCONET_API Value softmax(const Value& value, int dim = -1);

/// `value` with its mean over dimension `dim` subtracted and divided by sqrt(variance + epsilon),
/// where the variance is the mean square of the distance to the mean.
[[nodiscard]] COCONET_API Value layer_norm(const Value& value, int dim = -1, double epsilon = 1e-5);
/// layer_norm(value, dim, epsilon) * gamma + beta, which broadcast as NumPy does: for the last
/// dimension they are [extent].
[[nodiscard]] COCONET_API Value layer_norm(const Value& value, const Value& gamma,
                                           const Value& beta, int dim = -1, double epsilon = 1e-5);

/// value / sqrt(mean(value * value) + epsilon) * gamma, with the mean over dimension `dim`; `gamma`
/// broadcasts as NumPy does. Zhang & Sennrich, 2019.
[[nodiscard]] COCONET_API Value rms_norm(const Value& value, const Value& gamma, int dim = -1,
                                         double epsilon = 1e-5);

/// log(sum(exp(value), dims, keep_dims)), computed from the distance to the maximum so that nothing
/// overflows.
[[nodiscard]] COCONET_API Value logsumexp(const Value& value, std::vector<int> dims,
                                          bool keep_dims = false);

/// `value` where it is within `least` and `most`, else the one that it exceeds; NaN stays. At the
/// bounds it has a gradient.
[[nodiscard]] COCONET_API Value clip(const Value& value, const Value& least, const Value& most);

/// silu(gate) * value, rounded once. Shazeer, 2020.
[[nodiscard]] COCONET_API Value swiglu(const Value& gate, const Value& value);

/// numpy.concatenate(values, dim): the tensors one behind the other along dimension `dim`, in which
/// alone they may differ, and whose extents the program states. Throws ProgramError for no tensors,
/// for shapes or dtypes that differ otherwise, and where the dimension is sliced over ranks.
[[nodiscard]] COCONET_API Value concatenate(const std::vector<Value>& values, int dim = 0);

/// `value` moved by `by` along dimension `dim`: at i it has what `value` has at i - by, and 0 where
/// there is none. The program states the extent. A dimension that is sliced over ranks is gathered
/// and sliced again. Throws ProgramError for a number or a dimension that is none.
[[nodiscard]] COCONET_API Value shift(const Value& value, int dim, std::int64_t by);

/// The sums of the elements of `value` along dimension `dim` up to each, as numpy.cumsum(value,
/// dim), or with `reversed` from each on: of floats rounded as sums of halves are, 16-bit ones in
/// f32. The program states the extent. A dimension that is sliced is gathered and sliced again.
/// Throws ProgramError for a number or a dimension that is none.
[[nodiscard]] COCONET_API Value cumsum(const Value& value, int dim = -1, bool reversed = false);

/// The index along dimension `dim` of the largest element, the first of several, in i64, as
/// numpy.argmax(value, dim): of the first NaN where there is one. The dimension may be sliced.
[[nodiscard]] COCONET_API Value argmax(const Value& value, int dim = -1);
/// Of the smallest, as numpy.argmin(value, dim).
[[nodiscard]] COCONET_API Value argmin(const Value& value, int dim = -1);

/// Rotary positions (Su et al., 2021): of `value` [.., S, .., d], S being dimension `dim`, elements
/// i and i + d/2 of the last dimension turned as a vector by the angle s * base^(-2i/d), s the
/// index along `dim`. The program states d, which is even; S may be sliced. Throws ProgramError
/// else, and for what holds no floats.
[[nodiscard]] COCONET_API Value rotary(const Value& value, int dim, double base = 10000);

/// Options of `cross_entropy`.
struct CrossEntropyOptions {
  double label_smoothing = 0;         ///< of the target, what all classes share evenly [0, 1]
  std::int64_t ignored_label = -100;  ///< rows with it count nowhere
};
/// The mean over the rows of `logits` [.., C] of log(sum(exp(row))) - row[label], where `labels`
/// [..], of i32 or i64, has a class from 0 to C - 1 for each row, or options.ignored_label: as
/// torch.nn.functional.cross_entropy, but 0 where all rows are ignored. In f32 at least. The rows
/// and the classes may be sliced; of local labels each rank has a mean of its own. A label that is
/// no class makes it NaN. Throws ProgramError where shapes or dtypes are others.
[[nodiscard]] COCONET_API Value cross_entropy(const Value& logits, const Value& labels,
                                              const CrossEntropyOptions& options = {});

// ---- gradients
//

/// The derivatives of `loss`, which has one element of floats, replicated along every mesh axis,
/// with respect to each of `of`: values of this program, with the dtype, shape and layout of that
/// value, called "NAME.grad" after it. They are computed by ops that are appended to the program,
/// which schedules rewrite as any other. docs/gradients.md says how ranks add up and what is not
/// differentiable. Throws ProgramError where the loss is another, where a value of `of` holds no
/// floats or the loss does not depend on it, and where an op in between has no gradient.
[[nodiscard]] COCONET_API std::vector<Value> gradients(const Value& loss,
                                                       const std::vector<Value>& of);

}  // namespace coconet
