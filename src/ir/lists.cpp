// Completing and checking the lists of buffers.
#include "ir/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/extents.h"

namespace coconet::ir {

namespace {

std::vector<std::string> scattered_dims(const Graph& graph) {
  std::vector<std::string> dims;
  for (const Node& node : graph.nodes) {
    if (!node.attributes.scattered) continue;
    if (std::find(dims.begin(), dims.end(), scattered_dim(node)) == dims.end())
      dims.push_back(scattered_dim(node));
  }
  return dims;
}

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

std::map<std::string, std::int64_t> resolve_sizes(const Graph& graph,
                                                  const std::map<std::string, std::int64_t>& given,
                                                  const Lists& lists) {
  const std::vector<std::string> dims = scattered_dims(graph);
  std::map<std::string, std::int64_t> sizes = given;
  for (const auto& [name, lengths] : lists) {
    const std::string what = "the list of buffers of dimension '" + name + "'";
    if (std::find(dims.begin(), dims.end(), name) == dims.end()) {
      const std::string near = nearest(name, dims);
      throw ProgramError(what + " is of no use: program '" + graph.name +
                         "' has no scattered tensor over it" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
    const std::int64_t sum = sum_of(what, lengths);
    const auto [size, added] = sizes.try_emplace(name, sum);
    if (!added && size->second != sum) {
      throw ProgramError(
          fmt::format("{} has {} elements, but the extent given is {}; leave the extent out", what,
                      sum, size->second));
    }
  }
  return resolve_sizes(graph, sizes);
}

Lists resolve_lists(const Graph& graph, const std::map<std::string, std::int64_t>& sizes,
                    const Lists& given) {
  Lists lists = given;
  for (const std::string& dim : scattered_dims(graph)) lists.try_emplace(dim, 1, sizes.at(dim));
  return lists;
}

}  // namespace coconet::ir
