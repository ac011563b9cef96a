// The collectives that make a kernel what it is; see collective_halves.h.
#include "ir/collective_halves.h"

#include <fmt/format.h>

#include <algorithm>

namespace coconet::ir {

const Halves& halves_of(const Graph& graph, const std::vector<ValueId>& members) {
  const auto has = [&](Op op) {
    return op == Halves::none ||
           std::ranges::any_of(members, [&](ValueId id) { return graph.at(id).op == op; });
  };
  return *std::ranges::find_if(
      all_halves, [&](const Halves& one) { return has(one.combine) && has(one.spread); });
}

std::string kind_reason(const Graph& graph, const std::vector<ValueId>& members) {
  const Halves& halves = halves_of(graph, members);
  std::string names;
  for (const Op op : {halves.combine, halves.spread}) {
    const auto found = std::ranges::find(members, op, [&](ValueId id) { return graph.at(id).op; });
    if (op == Halves::none || found == members.end()) continue;
    names += fmt::format("{}'{}' ({})", names.empty() ? "because of " : " and ",
                         graph.at(*found).name, to_string(op));
  }
  return fmt::format("a kernel of these ops is of kind '{}', {}", to_string(halves.kind),
                     names.empty() ? "as none of them is a collective" : names);
}

}  // namespace coconet::ir
