// What functions that write several ops share: checks of the user's own operands, and 16-bit floats
// computed in f32.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "coconet/program.h"
#include "ir/graph.h"

namespace coconet::ir {

/// Throws ProgramError where `taker` was given an empty Value.
void require_given(const Value& value, std::string_view taker);
/// The program of `value`, which must be a tensor or a number of one. Throws ProgramError that
/// names `taker`.
const std::shared_ptr<Graph>& graph_of(const Value& value, std::string_view taker);

/// Throws what `build` does of the user's own tensors, before any is cast; the program stays as it
/// was.
template <class Build>
void require_valid(const std::shared_ptr<Graph>& graph, Build build) {
  const ValueId before = graph->size();
  (void)build();
  graph->drop_from(before);
}

/// What `build` makes; where it throws, the program stays as it was.
template <class Build>
Value whole_or_nothing(const std::shared_ptr<Graph>& graph, Build build) {
  const ValueId before = graph->size();
  try {
    return build();
  } catch (...) {
    graph->drop_from(before);
    throw;
  }
}

/// Throws ProgramError where `one` and `other` are divided over ranks otherwise than by `goes`,
/// which an op that is composed would say of values that nobody wrote.
void require_layouts(const Value& one, const Value& other, std::string_view taker,
                     const std::function<bool(Placement, Placement)>& goes);

/// Whether `value` is a number rather than a tensor.
[[nodiscard]] bool is_number(const Value& value);
/// 16-bit floats as f32, in which what is composed of several ops is computed: by the cast that
/// there is, or a new one. All else as it is.
[[nodiscard]] Value widened(const Value& value);
/// `value`, a number or of floats, in `dtype`: rounded once, where that has 16 bits, or what it was
/// cast from.
[[nodiscard]] Value narrowed(const Value& value, DType dtype);

/// A new value of `graph`: `value`, a number or what broadcasts to the shape of `like`, a tensor,
/// in that shape; a number gets its dtype.
[[nodiscard]] Value expanded(const std::shared_ptr<Graph>& graph, const Value& value,
                             const Node& like);
/// `indices`, integers below `extent` or `also`, which COCONET_CHECK=1 looks at where the
/// application gives them; what is no tensor of i32 or i64 as it is.
[[nodiscard]] Value in_range(const Value& indices, const Dim& extent,
                             std::optional<std::int64_t> also = {});

/// `value`, a tensor, sliced where `layout` is and it is replicated.
[[nodiscard]] Value made_sliced(Value value, const Placements& layout);
/// `value`, a tensor, local where `layout` is and it is replicated.
[[nodiscard]] Value made_local(Value value, const Placements& layout);

}  // namespace coconet::ir
