// Sizes of symbolic dimensions, and the block of a tensor that each rank holds.
#include "ir/extents.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/lists.h"
#include "ir/ops/infer.h"

namespace coconet::ir {

Sizes resolve_sizes(const Graph& graph, const Sizes& given) {
  std::vector<std::string> symbols;
  for (const Dim& dim : graph.dims) symbols.push_back(dim.name);
  for (const auto& [name, extent] : given) {
    const std::string counted(counted_by(Dim(name, 0)));
    const std::string& symbol = counted.empty() ? name : counted;
    if (std::ranges::find(symbols, symbol) != symbols.end()) continue;
    throw ProgramError("program '" + graph.name + "' has no dimension '" + name + "'" +
                       suggestion(name, symbols,
                                  symbols.empty() ? "; all its extents are fixed"
                                                  : fmt::format("; its dimensions are {}",
                                                                fmt::join(symbols, ", "))));
  }
  Sizes sizes;
  for (const Dim& dim : graph.dims) {
    const auto found = given.find(dim.name);
    const std::int64_t extent = found != given.end() ? found->second : dim.extent;
    if (found == given.end() && extent == 0) {
      throw ProgramError("dimension '" + dim.name + "' of program '" + graph.name +
                         "' has no extent and no default; give it one, such as {\"" + dim.name +
                         "\", 1024}");
    }
    if (extent < 1) {
      throw ProgramError(
          fmt::format("dimension '{}' of program '{}' has the extent {}; it must be at least 1",
                      dim.name, graph.name, extent));
    }
    sizes[dim.name] = extent;
  }
  for (const Node& node : graph.nodes()) {
    for (const Dim& dim : node.shape) {
      if (node.op == Op::iota) require_counts(graph, node, extent_of(dim, sizes));
      if (counted_by(dim).empty()) continue;
      const auto buffers = given.find(dim.name);
      sizes[dim.name] = buffers != given.end() ? buffers->second : 1;
    }
  }
  return sizes;
}

std::string extents_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, extent] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, extent);
  return text.empty() ? "as it is" : text;
}

std::int64_t extent_of(const Dim& dim, const Sizes& sizes) {
  if (!dim.symbolic()) return dim.extent;
  const auto found = sizes.find(dim.name);
  if (found == sizes.end())
    throw InternalError("dimension '" + dim.name + "' was not resolved to an extent");
  return found->second;
}

Extents global_extents(const Shape& shape, const Sizes& sizes) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) extents.push_back(extent_of(dim, sizes));
  return extents;
}

std::int64_t Part::count() const {
  return product(extent);
}

Part part_of(const Mesh& mesh, const Placements& layout, const Extents& global, int rank) {
  Part part{Extents(global.size(), 0), global};
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (layout[axis].kind != Placement::Kind::sliced) continue;
    const int dim = layout[axis].dim;
    const std::int64_t ranks = mesh.axes().at(axis).size;
    const std::int64_t whole = part.extent.at(dim);  // what is left after the axes before this one
    const std::int64_t block = block_length(whole, ranks);
    const std::int64_t offset =
        std::min(whole, block * mesh.coordinate(rank, static_cast<int>(axis)));
    part.begin[dim] += offset;
    part.extent[dim] = std::min(block, whole - offset);
  }
  return part;
}

Part part_of(const Graph& graph, ValueId id, const Sizes& sizes, int rank) {
  const Node& node = graph.at(id);
  return part_of(graph.mesh, node.layout, global_extents(node.shape, sizes), rank);
}

std::int64_t block_count(const Mesh& mesh, const Placements& layout, const Extents& global) {
  // Blocks are longest at coordinate 0 of every axis, which is rank 0.
  return part_of(mesh, layout, global, 0).count();
}

std::int64_t product(const Extents& extents) {
  std::int64_t count = 1;
  for (std::int64_t extent : extents) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw ProgramError("a tensor has more elements than a 64-bit number can count");
    }
  }
  return count;
}

}  // namespace coconet::ir
