// Lists: the lengths of the buffers that scattered tensors lie in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/extents.h"
#include "ir/graph.h"

namespace coconet::ir {

/// Lengths of buffers in elements, by the dimension that they make up.
using Lists = std::map<std::string, std::vector<std::int64_t>>;

/// The dimension that counts the buffers of symbol `dim`: "n.buffers" of "n".
[[nodiscard]] Dim buffers_of(const Dim& dim);
/// The symbol whose buffers `dim` counts, by name; empty where it counts none.
[[nodiscard]] std::string_view counted_by(const Dim& dim);

/// The dimensions whose buffers the graph tells apart, by scattered tensors or by values for each
/// buffer.
[[nodiscard]] std::vector<std::string> listed_dims(const Graph& graph);

/// The dimension of a scattered node.
[[nodiscard]] inline const std::string& scattered_dim(const Node& node) {
  return node.shape.front().name;
}

/// Extents of the graph's symbols as `resolve_sizes` finds them, where a dimension with a list has
/// the sum of it and `buffers_of` it the number of its lengths. Throws ProgramError for a list of a
/// dimension whose buffers the graph does not tell apart, an empty list, a length below 1, and an
/// extent in `given` that is another one.
[[nodiscard]] Sizes resolve_sizes(const Graph& graph, const Sizes& given, const Lists& lists);

/// A list for each of `listed_dims`: the one that is given, else one buffer of all of it.
[[nodiscard]] Lists resolve_lists(const Graph& graph, const Sizes& sizes, const Lists& given);

}  // namespace coconet::ir
