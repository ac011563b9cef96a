// An f32 as two halves of 16 bits: the nearest bf16, and what it lacks.
#pragma once

namespace coconet::ir {

/// The bf16 nearest to `value`, an f32, ties away from zero. NaN stays NaN.
[[nodiscard]] double upper_half(double value);

/// The lower 16 bits of `value`, an f32, as a signed integer. It is negative where the upper half
/// was rounded away from zero.
[[nodiscard]] double lower_half(double value);

/// The f32 whose halves these are, bit for bit; a NaN of `upper` stays NaN.
[[nodiscard]] double join_halves(double upper, double lower);

}  // namespace coconet::ir
