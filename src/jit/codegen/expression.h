// Pointwise ops as dialect text.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace coconet::jit {

/// "f32": the dialect's name of a dtype.
[[nodiscard]] std::string_view storage_type(DType dtype);
/// The dialect's type that values of `dtype` are computed in: f32 for f16 and bf16.
[[nodiscard]] std::string_view compute_type(DType dtype);
/// Whether f32 does not hold all values of `dtype`: on the way through it, they would be rounded to
/// 16 bits twice.
[[nodiscard]] bool exceeds_f32(DType dtype);

/// `number` as a literal of `dtype`'s computation type.
[[nodiscard]] std::string literal(double number, DType dtype);

/// The row's device text with a, b and c replaced by the operands. Operands are parenthesised
/// unless they are names or literals.
[[nodiscard]] std::string expand(std::string_view device, const std::string& a,
                                 const std::string& b, const std::string& c);
/// Device text whose numbers with a fraction or an exponent are of `dtype`'s computation type; of
/// doubles where that is no float.
[[nodiscard]] std::string with_numbers_of(DType dtype, std::string_view device);
/// Device text whose conversions to integers, such as i32(a), are those of the op cast.
[[nodiscard]] std::string with_defined_conversions(std::string_view device);
/// Whether the text reads each operand at most once, so that an operand may itself be an
/// expression.
[[nodiscard]] bool reads_once(std::string_view device);

/// Whether text of the dialect calls a function of the prelude's functions.h.
[[nodiscard]] bool calls_functions(std::string_view text);
/// Whether it calls a sine or a cosine, which take the arguments that are far from 0 in a loop
/// apart.
[[nodiscard]] bool calls_waves(std::string_view text);
/// Whether it chooses between values.
[[nodiscard]] bool chooses(std::string_view text);
/// The start of a loop over lanes with these statements: the prelude has one for those that choose
/// between values, one for those that call functions, and one for sines and cosines among them.
[[nodiscard]] std::string lanes_over(std::string_view text);

/// `text` made a C identifier that is no word of the dialect.
[[nodiscard]] std::string identifier(std::string_view text);

}  // namespace coconet::jit
