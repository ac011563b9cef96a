// Kernels that would wait for themselves, and kernels of parts that have nothing to do with each
// other.
#include "sched/kernel_order.h"

#include <algorithm>
#include <map>
#include <vector>

#include "coconet/error.h"
#include "sched/behind_cycles.h"
#include "sched/refusal.h"
#include "sched/remedies.h"
#include "sched/transform.h"

namespace coconet::sched {

using ir::Fusion;
using ir::Graph;
using ir::ValueId;

bool has_cycle(const Graph& graph) {
  // A kernel is where its first member is.
  const auto place_of = [&](ValueId id) {
    const Fusion* const kernel = graph.fusion_of(id);
    return kernel == nullptr ? id : kernel->members.front();
  };
  std::vector<std::vector<ValueId>> needs(graph.nodes().size());
  for (ValueId id = 0; id < graph.size(); ++id) {
    const ValueId place = place_of(id);
    for (const ValueId operand : graph.at(id).operands) {
      if (place_of(operand) != place)
        needs[static_cast<std::size_t>(place)].push_back(place_of(operand));
    }
  }
  return std::ranges::count(behind_cycles(needs), true) > 0;
}

void refuse_cycle(const Graph& graph, const std::set<ValueId>& members) {
  const auto& users = graph.users();
  std::set<ValueId> after;  // ordered by id: the first offender is the same every time
  std::vector<ValueId> pending(members.rbegin(), members.rend());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    for (const ValueId user : users[id]) {
      if (members.contains(user) && !members.contains(id)) {
        const Fusion* other = graph.fusion_of(id);
        throw Refusal("the kernel would wait for itself (a cycle): " +
                          (other != nullptr
                               ? "kernel '" + other->name + "' reads what this one computes, and " +
                                     quoted(graph, user) + " reads its " + quoted(graph, id)
                               : quoted(graph, id) + " is computed from its ops and read by " +
                                     quoted(graph, user)),
                      remedies_of_cycle(graph, members, id, user), "make kernels of fewer ops");
      }
      if (members.contains(user) || !after.insert(user).second) continue;
      pending.push_back(user);
      if (const Fusion* other = graph.fusion_of(user)) {
        for (const ValueId member : other->members) {
          if (after.insert(member).second) pending.push_back(member);
        }
      }
    }
  }
}

void refuse_gap(const Graph& graph, const std::set<ValueId>& members) {
  std::map<ValueId, std::vector<ValueId>> members_at;  // by value: those that make or read it
  const auto each_value = [&](ValueId member, const auto& visit) {
    visit(member);
    for (const ValueId operand : graph.at(member).operands) {
      if (!graph.at(operand).weak) visit(operand);
    }
  };
  for (const ValueId id : members)
    each_value(id, [&](ValueId value) { members_at[value].push_back(id); });
  std::set<ValueId> joined = {*members.begin()};
  std::vector<ValueId> pending = {*members.begin()};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    each_value(id, [&](ValueId value) {
      const auto found = members_at.find(value);
      if (found == members_at.end()) return;  // visited
      for (const ValueId member : found->second) {
        if (joined.insert(member).second) pending.push_back(member);
      }
      members_at.erase(found);
    });
  }
  for (const ValueId id : members) {
    if (!joined.contains(id)) {
      throw ScheduleError("there is a gap: " + quoted(graph, id) + " shares no value with " +
                          quoted(graph, *members.begin()) +
                          " and the ops around it; fuse the ops that connect " +
                          "them, or make two kernels");
    }
  }
}

}  // namespace coconet::sched
