// Completing and checking the lists of buffers.
#include "ir/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"

namespace coconet::ir {

namespace {

constexpr std::string_view suffix = ".buffers";

std::int64_t sum_of(const std::string& what, const std::vector<std::int64_t>& lengths) {
  if (lengths.empty()) throw ProgramError(what + " is empty; give the length of each buffer");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1) {
      throw ProgramError(fmt::format("{} has the length {} at {}; a buffer has at least 1 element",
                                     what, lengths[i], i));
    }
    if (__builtin_add_overflow(sum, lengths[i], &sum)) {
      throw ProgramError(what + " has more elements than a 64-bit number can count");
    }
  }
  return sum;
}

}  // namespace

Dim buffers_of(const Dim& dim) {
  return {dim.name + std::string(suffix), 0};
}

std::string_view counted_by(const Dim& dim) {
  const std::string_view name = dim.name;
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : "";
}

std::vector<std::string> listed_dims(const Graph& graph) {
  std::vector<std::string> dims;
  const auto add = [&](std::string_view dim) {
    if (!dim.empty() && std::ranges::find(dims, dim) == dims.end()) dims.emplace_back(dim);
  };
  for (const Node& node : graph.nodes()) {
    if (node.attributes.scattered) add(scattered_dim(node));
    for (const Dim& dim : node.shape) add(counted_by(dim));
  }
  return dims;
}

Sizes resolve_sizes(const Graph& graph, const Sizes& given, const Lists& lists) {
  const std::vector<std::string> dims = listed_dims(graph);
  Sizes sizes = given;
  for (const auto& [name, lengths] : lists) {
    const std::string what = "the list of buffers of dimension '" + name + "'";
    if (std::ranges::find(dims, name) == dims.end()) {
      throw ProgramError(
          what + " is of no use: program '" + graph.name +
          "' has neither a scattered tensor over it nor values for each of its buffers" +
          suggestion(name, dims));
    }
    const std::int64_t sum = sum_of(what, lengths);
    const auto [size, added] = sizes.try_emplace(name, sum);
    if (!added && size->second != sum) {
      throw ProgramError(
          fmt::format("{} has {} elements, but the extent given is {}; leave the extent out", what,
                      sum, size->second));
    }
  }
  for (const auto& [name, extent] : given) {
    const std::string dim(counted_by(Dim(name, 0)));
    const auto list = lists.find(dim);
    const std::int64_t buffers = list == lists.end() ? 1 : std::ssize(list->second);
    if (dim.empty() || extent == 1 || extent == buffers) continue;
    throw ProgramError(fmt::format(
        "dimension '{}' is given the extent {}; leave it out, and give the lengths of the buffers "
        "of '{}'",
        name, extent, dim));
  }
  sizes = resolve_sizes(graph, sizes);
  for (const auto& [name, lengths] : lists) {
    const auto buffers = sizes.find(buffers_of(Dim(name, 0)).name);
    if (buffers != sizes.end()) buffers->second = std::ssize(lengths);
  }
  return sizes;
}

Lists resolve_lists(const Graph& graph, const Sizes& sizes, const Lists& given) {
  Lists lists = given;
  for (const std::string& dim : listed_dims(graph)) lists.try_emplace(dim, 1, sizes.at(dim));
  return lists;
}

}  // namespace coconet::ir
