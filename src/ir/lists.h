// Lists: the lengths of the buffers that scattered tensors lie in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace coconet::ir {

/// Lengths of buffers in elements, by the dimension that they make up.
using Lists = std::map<std::string, std::vector<std::int64_t>>;

/// The dimension of a scattered node.
[[nodiscard]] inline const std::string& scattered_dim(const Node& node) {
  return node.shape.front().name;
}

/// Extents of the graph's symbols as `resolve_sizes` finds them, where a dimension with a list has
/// the sum of it. Throws ProgramError for a list of a dimension over which nothing is scattered, an
/// empty list, a length below 1, and an extent in `given` that is another one.
[[nodiscard]] std::map<std::string, std::int64_t> resolve_sizes(
    const Graph& graph, const std::map<std::string, std::int64_t>& given, const Lists& lists);

/// A list for every dimension over which the graph has scattered tensors: those given, else one
/// buffer of all of it.
[[nodiscard]] Lists resolve_lists(const Graph& graph,
                                  const std::map<std::string, std::int64_t>& sizes,
                                  const Lists& given);

}  // namespace coconet::ir
