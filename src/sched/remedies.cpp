// Remedies of broken rules of kernels; see remedies.h.
#include "sched/remedies.h"

#include <algorithm>
#include <iterator>

#include "ir/collective_halves.h"
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
  if (missing == Op::send) return remedies;
  const bool at_root = missing == Op::reduce || missing == Op::broadcast;
  const std::string into = at_root ? "reduce+broadcast" : "reduce_scatter+all_gather";
  for (const ValueId id : free_ones(graph, Op::all_reduce)) {
    remedies.push_back({.first = {complete({"split", {{"op", graph.at(id).name}, {"into", into}}})},
                        .again = false});
  }
  return remedies;
}

}  // namespace

std::vector<Remedy> remedies_of_cycle(const Graph& graph, const std::set<ValueId>& members,
                                      ValueId awaited, ValueId reader) {
  const std::set<ValueId> outside = between(graph, members);
  std::vector<Remedy> remedies;
  if (const Fusion* other = graph.fusion_of(awaited))
    remedies.push_back({.any_kind = true, .merged = other->name});
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

std::vector<Remedy> remedies_of_kind(const Graph& graph, std::string_view kind,
                                     const std::set<ValueId>& ops) {
  const auto has = [&](Op op) {
    return std::ranges::any_of(ops, [&](ValueId id) { return graph.at(id).op == op; });
  };
  ir::Halves wanted;
  for (const ir::Halves& one : ir::all_halves) {
    if (to_string(one.kind) != kind) continue;
    wanted = one;
    if (has(one.combine) || has(one.spread)) break;
  }
  std::set<ValueId> other;
  for (const ValueId id : ops) {
    const Op op = graph.at(id).op;
    if (ir::is_collective(op) && op != wanted.combine && op != wanted.spread) other.insert(id);
  }
  std::vector<Remedy> remedies = {{.without = std::move(other)}};
  for (const Op missing : {wanted.combine, wanted.spread}) {
    if (missing == ir::Halves::none || has(missing)) continue;
    constexpr std::size_t most = 16;  // in programs that have many
    std::vector<Remedy> completed;
    for (const Remedy& remedy : remedies) {
      for (const ValueId id : free_ones(graph, missing)) {
        if (completed.size() == most) break;
        completed.push_back(remedy);
        completed.back().with.insert(id);
      }
    }
    if (completed.empty()) return splits_for(graph, missing);
    remedies = std::move(completed);
  }
  return remedies;
}

}  // namespace coconet::sched
