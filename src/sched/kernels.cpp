// The rules of kernels.
#include "sched/kernels.h"

#include <algorithm>

#include "coconet/error.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// What is computed from the kernel's results, outside of it, may not be needed by the kernel.
/// Other kernels run as a whole: reading one of their results waits for everything that they read.
void refuse_cycle(const Graph& graph, const std::set<ValueId>& members) {
  const auto users = graph.users();
  std::set<ValueId> after;  // ordered by id: the first offender is the same every time
  std::vector<ValueId> pending(members.rbegin(), members.rend());
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    for (const ValueId user : users[static_cast<std::size_t>(id)]) {
      if (members.contains(user) && !members.contains(id)) {
        const std::string start = "the kernel would wait for itself (a cycle): ";
        if (const Fusion* other = graph.fusion_of(id)) {
          throw ScheduleError(start + "kernel '" + other->name +
                              "' reads what this one computes, and " + quoted(graph, user) +
                              " reads its " + quoted(graph, id) +
                              "; make one kernel of both, or leave out " + quoted(graph, user));
        }
        throw ScheduleError(start + quoted(graph, id) + " is computed from its ops and read by " +
                            quoted(graph, user) + "; fuse " + quoted(graph, id) +
                            " too, or leave out " + quoted(graph, user));
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

/// Ops that share no value, not even an operand, gain nothing from one kernel and make its domain
/// ambiguous.
void refuse_gap(const Graph& graph, const std::set<ValueId>& members) {
  std::set<ValueId> joined = {*members.begin()};
  std::set<ValueId> values;
  for (bool grew = true; grew;) {
    grew = false;
    for (const ValueId id : joined) {
      values.insert(id);
      for (const ValueId operand : graph.at(id).operands) {
        if (!graph.at(operand).weak) values.insert(operand);
      }
    }
    for (const ValueId id : members) {
      if (joined.contains(id)) continue;
      const auto& operands = graph.at(id).operands;
      if (!values.contains(id) && std::none_of(operands.begin(), operands.end(),
                                               [&](ValueId v) { return values.contains(v); })) {
        continue;
      }
      joined.insert(id);
      grew = true;
    }
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

bool needed_outside(const Graph& graph, const std::set<ValueId>& members, ValueId id) {
  const auto users = graph.users()[static_cast<std::size_t>(id)];
  return is_output(graph, id) || std::any_of(users.begin(), users.end(),
                                             [&](ValueId user) { return !members.contains(user); });
}

/// All results that leave the kernel, but for those that are `gathered`, must be of the shape and
/// layout of `domain`.
void require_domain(const Graph& graph, const std::set<ValueId>& members, ValueId domain,
                    const std::set<ValueId>& gathered) {
  for (const ValueId id : members) {
    if (gathered.contains(id)) continue;
    if (graph.at(id).op != Op::update && !needed_outside(graph, members, id)) continue;
    if (graph.at(id).shape != graph.at(domain).shape ||
        graph.at(id).layout != graph.at(domain).layout) {
      throw ScheduleError(
          "one kernel runs over one domain, but its results differ: " + describe(graph, domain) +
          " and " + describe(graph, id) + "; make two kernels");
    }
  }
}

void check_computation(const Graph& graph, const std::set<ValueId>& members) {
  ValueId domain = -1;
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (!ir::is_elementwise(op) && op != Op::update) {
      throw ScheduleError(quoted(graph, id) + " is " +
                          (ir::is_collective(op) ? "a collective" : "no pointwise op") +
                          "; a kernel of kind 'computation' takes pointwise ops and updates" +
                          (op == Op::reduce_scatter || op == Op::all_gather
                               ? ", one of kind 'all_reduce' takes it too"
                               : ""));
    }
    if (op == Op::update || needed_outside(graph, members, id)) domain = id;
  }
  if (domain < 0)
    throw ScheduleError(
        "nothing outside the kernel reads any of its results; name an update or an output");
  require_domain(graph, members, domain, {});
}

/// The kernel's one op of kind `op`; -1 when it has none. Throws when it has two.
ValueId find_collective(const Graph& graph, const std::set<ValueId>& members, Op op) {
  ValueId found = -1;
  for (const ValueId id : members) {
    if (graph.at(id).op != op) continue;
    if (found >= 0) {
      throw ScheduleError(
          "two collectives on one side: " + quoted(graph, found) + " and " + quoted(graph, id) +
          "; the kernel takes one reduce_scatter and one all_gather" +
          (op == Op::all_gather ? " (as_slice removes the gather of a state)" : ""));
    }
    found = id;
  }
  return found;
}

/// The gather and the updates that write what it gathers. Nothing else in the kernel can read it:
/// other ranks' slices arrive only at the kernel's end.
std::set<ValueId> find_gathered(const Graph& graph, const std::set<ValueId>& members,
                                ValueId gather) {
  const Node& whole = graph.at(gather);
  std::set<ValueId> gathered = {gather};
  for (const ValueId id : members) {
    const Node& node = graph.at(id);
    for (const ValueId operand : node.operands) {
      if (!gathered.contains(operand)) continue;
      if (operand != gather) {
        throw ScheduleError(quoted(graph, id) + " reads " + quoted(graph, operand) +
                            ", which is gathered in the same kernel; leave " + quoted(graph, id) +
                            " out");
      }
      if (node.op != Op::update) {
        throw ScheduleError(quoted(graph, id) + " reads " + quoted(graph, gather) +
                            " in the kernel that gathers it; " +
                            "reorder it before the all_gather, or leave it out");
      }
      if (node.shape != whole.shape || node.layout != whole.layout) {
        throw ScheduleError(
            quoted(graph, id) + " writes what " + quoted(graph, gather) + " gathers, " +
            describe(graph, gather) + ", into " + describe(graph, node.operands.front()) +
            "; the kernel gathers into a tensor of the same shape and layout only: leave it out" +
            (node.shape == whole.shape ? ", or use as_slice on the state" : ""));
      }
      gathered.insert(id);
    }
  }
  return gathered;
}

void check_all_reduce(const Graph& graph, const std::set<ValueId>& members) {
  const ValueId scatter = find_collective(graph, members, Op::reduce_scatter);
  const ValueId gather = find_collective(graph, members, Op::all_gather);
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (id == scatter || id == gather || ir::is_elementwise(op) || op == Op::update) continue;
    throw ScheduleError(quoted(graph, id) +
                        " cannot be in a kernel of kind 'all_reduce', which takes a " +
                        "reduce_scatter, pointwise ops, an all_gather and updates");
  }
  if (scatter < 0 || gather < 0) {
    throw ScheduleError(
        "a kernel of kind 'all_reduce' needs a reduce_scatter and an all_gather, and has no " +
        std::string(scatter < 0 ? "reduce_scatter" : "all_gather") + "; split an all_reduce first");
  }
  const std::set<ValueId> live = live_values(graph);
  for (const ValueId id : {scatter, gather}) {
    if (!live.contains(id)) {
      throw ScheduleError("no update and no output needs " + quoted(graph, id) +
                          "; drop it with dead");
    }
  }
  const Node& first = graph.at(scatter);
  const ValueId slice = graph.at(gather).operands.front();
  if (!members.contains(slice)) {
    throw ScheduleError(quoted(graph, gather) + " gathers " + quoted(graph, slice) +
                        ", which the kernel does not compute; fuse it too");
  }
  if (first.attributes.axis != graph.at(gather).attributes.axis ||
      first.layout != graph.at(slice).layout || first.shape != graph.at(slice).shape) {
    throw ScheduleError(quoted(graph, scatter) + " makes " + describe(graph, scatter) + " but " +
                        quoted(graph, gather) + " gathers " + describe(graph, slice) +
                        "; they must slice alike");
  }
  for (const ValueId id : members) {
    if (id != scatter && descendants(graph, {id}).contains(scatter)) {
      throw ScheduleError(quoted(graph, id) + " comes before " + quoted(graph, scatter) +
                          "; the kernel takes computation between the collectives: leave it out");
    }
  }
  require_domain(graph, members, scatter, find_gathered(graph, members, gather));
}

}  // namespace

void check_kernel(const Graph& graph, Fusion::Kind kind, const std::set<ValueId>& members) {
  if (kind == Fusion::Kind::computation) {
    check_computation(graph, members);
  } else {
    check_all_reduce(graph, members);
  }
  refuse_cycle(graph, members);
  refuse_gap(graph, members);
}

void check_kernels(const Graph& graph) {
  for (const Fusion& fusion : graph.fusions) {
    try {
      check_kernel(graph, fusion.kind, {fusion.members.begin(), fusion.members.end()});
    } catch (const ScheduleError& error) {
      throw ScheduleError("kernel '" + fusion.name + "' cannot be: " + error.what());
    }
  }
}

}  // namespace coconet::sched
