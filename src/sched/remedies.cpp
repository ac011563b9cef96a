// Remedies of broken rules of kernels; see remedies.h.
#include "sched/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sched/rewrite.h"

namespace coconet::sched {

using ir::Fusion;
using ir::Graph;
using ir::Op;
using ir::ValueId;

namespace {

/// What lies outside `members` on the way from one of them to another.
std::set<ValueId> between(const Graph& graph, const std::set<ValueId>& members) {
  const ValueSet behind = descendants(graph, members);
  std::set<ValueId> found;
  for (const ValueId id : ancestors(graph, members)) {
    if (behind.contains(id) && !members.contains(id)) found.insert(id);
  }
  return found;
}

std::set<ValueId> common(const std::set<ValueId>& a, const ValueSet& b) {
  std::set<ValueId> both = a;
  std::erase_if(both, [&](ValueId id) { return !b.contains(id); });
  return both;
}

/// Reorders that compute on slices what the kernel would wait for, so that it can compute it
/// itself: of what lies between, and of the kernel's own reductions and pointwise ops, that part
/// which is behind a gather that lies between.
std::vector<Remedy> reorders_of(const Graph& graph, const std::set<ValueId>& members,
                                const std::set<ValueId>& outside) {
  std::vector<Remedy> remedies;
  for (const ValueId gather : outside) {
    if (graph.at(gather).op != Op::all_gather) continue;
    const ValueSet behind = descendants(graph, {gather});
    const auto propose = [&](const std::set<ValueId>& among, const auto& is_meant) {
      std::vector<std::string> before;
      for (const ValueId id : common(among, behind)) {
        if (id != gather && is_meant(graph.at(id).op)) before.push_back(graph.at(id).name);
      }
      if (before.empty()) return;
      remedies.push_back({.first = {complete({"reorder",
                                              {{"all_gather", graph.at(gather).name},
                                               {"before", std::move(before)}}})}});
    };
    const auto reduces = [](Op op) { return op == Op::reduction; };
    const auto computes = [](Op op) { return op == Op::reduction || ir::is_elementwise(op); };
    propose(outside, reduces);
    propose(outside, computes);
    propose(members, reduces);
    propose(members, computes);
  }
  return remedies;
}

/// The values of op `op` that no kernel holds.
std::vector<ValueId> free_ones(const Graph& graph, Op op) {
  std::vector<ValueId> found;
  for (ValueId id = 0; id < graph.size(); ++id) {
    if (graph.at(id).op == op && graph.fusion_of(id) == nullptr) found.push_back(id);
  }
  return found;
}

/// Splits that make a `missing`.
std::vector<Remedy> splits_for(const Graph& graph, Op missing) {
  std::vector<Remedy> remedies;
  const bool at_root = missing == Op::reduce || missing == Op::broadcast;
  const std::string into = at_root ? "reduce+broadcast" : "reduce_scatter+all_gather";
  for (const ValueId id : free_ones(graph, Op::all_reduce)) {
    remedies.push_back({.first = {complete({"split", {{"op", graph.at(id).name}, {"into", into}}})},
                        .again = false});
  }
  return remedies;
}

}  // namespace

std::string named(Op op) {
  const std::string name(to_string(op));
  return (name.front() == 'a' ? "an " : "a ") + name;
}

std::vector<Remedy> other_kinds(Fusion::Kind kind) {
  std::vector<Remedy> remedies;
  for (const Fusion::Kind other : ir::fusion_kinds) {
    if (other != kind) remedies.push_back({.kind = other});
  }
  return remedies;
}

std::vector<Remedy> remedies_of_cycle(const Graph& graph, const std::set<ValueId>& members,
                                      ValueId awaited, ValueId reader) {
  const std::set<ValueId> outside = between(graph, members);
  std::vector<Remedy> remedies;
  if (const Fusion* other = graph.fusion_of(awaited)) {
    for (const std::optional<Fusion::Kind> kind : {std::optional<Fusion::Kind>(), {other->kind}})
      remedies.push_back({.kind = kind, .merged = other->name});
  }
  remedies.push_back({.with = {awaited}});
  std::set<ValueId> ends;
  for (const ValueId member : members) {
    for (const ValueId operand : graph.at(member).operands) {
      if (outside.contains(operand)) ends.insert(operand);
    }
  }
  if (!ends.empty()) remedies.push_back({.with = ends});
  std::ranges::move(reorders_of(graph, members, outside), std::back_inserter(remedies));
  remedies.push_back({.without = {reader}});
  remedies.push_back({.without = common(members, descendants(graph, {awaited}))});
  remedies.push_back({.without = common(members, descendants(graph, outside))});
  remedies.push_back({.without = common(members, ancestors(graph, outside))});
  return remedies;
}

std::vector<Remedy> remedies_of_half(const Graph& graph, Fusion::Kind kind, Op missing,
                                     std::optional<Op> also_missing) {
  constexpr std::size_t most = 16;  // of each op, in programs that have many
  std::vector<Remedy> remedies;
  const auto propose = [&](const std::set<ValueId>& ops) {
    if (remedies.size() < most) remedies.push_back({.with = ops});
  };
  for (const ValueId id : free_ones(graph, missing)) {
    if (!also_missing) {
      propose({id});
      continue;
    }
    for (const ValueId other : free_ones(graph, *also_missing)) propose({id, other});
  }
  if (remedies.empty()) std::ranges::move(splits_for(graph, missing), std::back_inserter(remedies));
  std::ranges::move(other_kinds(kind), std::back_inserter(remedies));
  return remedies;
}

std::string where_is(const Graph& graph, Op missing) {
  for (const Fusion& other : graph.fusions()) {
    for (const ValueId id : other.members) {
      if (graph.at(id).op == missing)
        return fmt::format("{} is in kernel '{}' already", quoted(graph, id), other.name);
    }
  }
  if (const auto free = free_ones(graph, missing); !free.empty()) {
    return fmt::format("{} is none that these ops go with",
                       free.size() == 1 ? quoted(graph, free.front()) : "there");
  }
  return fmt::format("the program has no {}, and no all_reduce to split", to_string(missing));
}

}  // namespace coconet::sched
