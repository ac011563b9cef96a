// Sizes: what a symbolic shape and a layout come to on a given rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace coconet::ir {

using Extents = std::vector<std::int64_t>;
/// Extents of dimensions by name.
using Sizes = std::map<std::string, std::int64_t>;

/// Extents of the graph's symbols: those given, else the defaults; and of those that count
/// buffers, where the graph has values for each, 1. Throws ProgramError for an unknown symbol, a
/// missing or a non-positive extent.
[[nodiscard]] Sizes resolve_sizes(const Graph& graph, const Sizes& given);

/// "n=1024", or "as it is" where a program has fixed sizes.
[[nodiscard]] std::string extents_text(const Sizes& sizes);

/// The extent of `dim`, a symbol in `sizes` or fixed.
[[nodiscard]] std::int64_t extent_of(const Dim& dim, const Sizes& sizes);
[[nodiscard]] Extents global_extents(const Shape& shape, const Sizes& sizes);

/// The part of a tensor that one rank holds: per dimension where it begins and how long it is.
struct Part {
  Extents begin;
  Extents extent;
  [[nodiscard]] std::int64_t count() const;
};

/// The part that `rank` holds of a tensor with `global` extents. Axes that slice the same dimension
/// nest in mesh order. Blocks are `block_length` long; the last ones may be short or empty.
[[nodiscard]] Part part_of(const Mesh& mesh, const Placements& layout, const Extents& global,
                           int rank);
/// The part that `rank` holds of the value `id`.
[[nodiscard]] Part part_of(const Graph& graph, ValueId id, const Sizes& sizes, int rank);

/// Elements of the largest part over all ranks: what every rank allocates.
[[nodiscard]] std::int64_t block_count(const Mesh& mesh, const Placements& layout,
                                       const Extents& global);

[[nodiscard]] std::int64_t product(const Extents& extents);

}  // namespace coconet::ir
