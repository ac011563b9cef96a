// The rules of kernels.
#include "sched/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/collective_halves.h"
#include "ir/lists.h"
#include "sched/kernel_order.h"
#include "sched/knobs.h"
#include "sched/refusal.h"
#include "sched/remedies.h"
#include "sched/rewrite.h"
#include "sched/transform.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Halves;
using ir::Node;
using ir::Op;
using ir::ValueId;

void require_same(const Graph& graph, ValueId domain, ValueId id) {
  if (graph.at(id).shape == graph.at(domain).shape &&
      graph.at(id).layout == graph.at(domain).layout) {
    return;
  }
  throw ScheduleError(
      "one kernel runs over one domain, but its results differ: " + describe(graph, domain) +
      " and " + describe(graph, id) + "; make two kernels");
}

/// A view, or what is gathered, is read in memory, where nothing is yet of what the kernel
/// computes.
void refuse_views_of_members(const Graph& graph, const std::set<ValueId>& members) {
  for (const ValueId id : members) {
    const Node& node = graph.at(id);
    if (!ir::is_view(node.op) && !ir::is_gather(node.op)) continue;
    const ValueId operand = node.operands.front();
    if (!members.contains(operand)) continue;
    throw Refusal(quoted(graph, id) + (ir::is_view(node.op) ? " is a view of " : " gathers from ") +
                      quoted(graph, operand) +
                      ", of which the kernel has one element at a time; a kernel takes views of "
                      "what is in memory",
                  {{.without = {operand}}, {.without = {id}}}, "leave one of them out");
  }
}

void check_computation(const Graph& graph, const std::set<ValueId>& members) {
  ValueId domain = -1;
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (!ir::is_elementwise(op) && op != Op::update) {
      throw Refusal(quoted(graph, id) +
                        " is no pointwise op, and a kernel of kind 'computation' takes pointwise "
                        "ops and updates",
                    {{.without = {id}}});
    }
    if (leaves(graph, members, id)) domain = id;
  }
  if (domain < 0)
    throw ScheduleError(
        "nothing outside the kernel reads any of its results; name an update or an output");
  for (const ValueId id : members) {
    if (leaves(graph, members, id)) require_same(graph, domain, id);
  }
}

/// All results that leave the kernel, but for those that are `spread` and scalars, must be of the
/// shape and layout of `domain`.
void require_domain(const Graph& graph, const std::set<ValueId>& members, ValueId domain,
                    const std::set<ValueId>& spread) {
  for (const ValueId id : members) {
    if (spread.contains(id) || is_scalar(graph, domain, id)) continue;
    if (leaves(graph, members, id)) require_same(graph, domain, id);
  }
}

/// The kernel's one op of kind `op`, -1 when it has none. Throws when it has two, with what the
/// kernel `takes`.
ValueId find_one(const Graph& graph, const std::set<ValueId>& members, Op op,
                 const std::string& takes) {
  ValueId found = -1;
  for (const ValueId id : members) {
    if (graph.at(id).op != op) continue;
    if (found >= 0) {
      std::vector<Remedy> remedies;
      const auto& users = graph.users();
      for (const ValueId one : {found, id}) {
        for (const ValueId user : users[one]) {
          if (op != Op::all_gather || graph.at(user).op != Op::update) continue;
          const std::string& state = graph.at(graph.at(user).operands.front()).name;
          remedies.push_back(
              {.first = {complete({"as_slice", {{"state", state}}})}, .without = {one}});
        }
      }
      remedies.push_back({.without = {found}});
      remedies.push_back({.without = {id}});
      throw Refusal("two collectives on one side: " + quoted(graph, found) + " and " +
                        quoted(graph, id) + ", and the kernel takes " + takes,
                    std::move(remedies), "make two kernels");
    }
    found = id;
  }
  return found;
}

Halves halves_of(const Graph& graph, const std::set<ValueId>& members) {
  return ir::halves_of(graph, {members.begin(), members.end()});
}

/// The words for what a collective op does.
struct Verbs {
  std::string does, done;
};
Verbs verbs_of(Op op) {
  if (op == Op::all_gather) return {"gathers", "gathered"};
  if (op == Op::broadcast) return {"broadcasts", "broadcast"};
  if (op == Op::send) return {"sends", "sent"};
  return {"reduces", "reduced"};
}

/// The collective and the updates that write what it makes. Nothing else in the kernel can read it:
/// other ranks' data arrive only at the kernel's end.
std::set<ValueId> find_spread(const Graph& graph, const std::set<ValueId>& members,
                              ValueId gather) {
  const Node& whole = graph.at(gather);
  const Verbs verbs = verbs_of(whole.op);
  std::set<ValueId> gathered = {gather};
  for (const ValueId id : members) {
    const Node& node = graph.at(id);
    for (const ValueId operand : node.operands) {
      if (!gathered.contains(operand)) continue;
      if (operand != gather) {
        throw ScheduleError(quoted(graph, id) + " reads " + quoted(graph, operand) + ", which is " +
                            verbs.done + " in the same kernel; leave " + quoted(graph, id) +
                            " out");
      }
      if (node.op != Op::update) {
        std::vector<Remedy> remedies = {{.without = {id}}};
        if (whole.op == Op::all_gather) {
          const std::vector<std::string> before = {node.name};
          const Step reorder =
              complete({"reorder", {{"all_gather", whole.name}, {"before", before}}});
          remedies.insert(remedies.begin(), {.first = {reorder}, .again = false});
        }
        throw Refusal(quoted(graph, id) + " reads " + quoted(graph, gather) +
                          " in the kernel that " + verbs.does + " it",
                      std::move(remedies), "leave it out");
      }
      if (node.shape != whole.shape || node.layout != whole.layout) {
        const std::string& state = graph.at(node.operands.front()).name;
        throw Refusal(quoted(graph, id) + " writes what " + quoted(graph, gather) + " " +
                          verbs.does + ", " + describe(graph, gather) + ", into " +
                          describe(graph, node.operands.front()) + "; the kernel " + verbs.does +
                          " into a tensor of the same shape and layout only",
                      {{.without = {id}}, {.first = {complete({"as_slice", {{"state", state}}})}}},
                      "leave it out");
      }
      gathered.insert(id);
    }
  }
  return gathered;
}

/// "an all_gather"
std::string named(Op op) {
  const std::string name(to_string(op));
  return (name.front() == 'a' ? "an " : "a ") + name;
}

/// "a reduce_scatter, pointwise ops, an all_gather and updates": what a kernel is made of.
std::string ingredients(const Halves& halves) {
  std::string text;
  if (halves.combine == Op::all_reduce) return "an all_reduce and updates";
  if (halves.combine != Halves::none) text += named(halves.combine) + ", ";
  text += "pointwise ops";
  const bool slices = halves.combine == Op::reduce_scatter || halves.spread == Op::all_gather;
  if (slices) text += ", reductions of all that is sliced";
  if (halves.spread != Halves::none) text += ", " + named(halves.spread);
  return text + " and updates";
}

/// A member that `combine` is computed from; -1: there is none.
ValueId before_combine(const Graph& graph, const std::set<ValueId>& members, ValueId combine) {
  std::set<ValueId> before = {combine};
  std::vector<ValueId> pending = {combine};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    for (const ValueId operand : graph.at(id).operands) {
      if (operand >= *members.begin() && before.insert(operand).second) pending.push_back(operand);
    }
  }
  before.erase(combine);
  const auto found =
      std::ranges::find_if(members, [&](ValueId member) { return before.contains(member); });
  return found == members.end() ? -1 : *found;
}

void check_collective(const Graph& graph, const ValueSet& live, const Halves& halves,
                      const std::set<ValueId>& members) {
  const Collective collective = find_collective(graph, members);
  const ValueId combine = collective.combine;
  const ValueId spread = collective.spread;
  for (const ValueId id : members) {
    const Op op = graph.at(id).op;
    if (id == combine || id == spread || op == Op::update) continue;
    if (ir::is_elementwise(op) && halves.combine != Op::all_reduce) continue;
    if (op == Op::reduction && reduces_domain(graph, collective, id)) continue;
    throw ScheduleError(fmt::format("{} cannot be in a kernel of kind '{}', which takes {}",
                                    quoted(graph, id), to_string(halves.kind),
                                    ingredients(halves)));
  }
  for (const ValueId id : {combine, spread}) {
    if (id >= 0 && !live.contains(id)) {
      throw ScheduleError("no update and no output needs " + quoted(graph, id) +
                          "; drop it with dead");
    }
  }
  if (spread >= 0 && combine >= 0) {
    const Node& first = graph.at(combine);
    const ValueId made = graph.at(spread).operands.front();
    if (!members.contains(made)) {
      throw Refusal(quoted(graph, spread) + " " + verbs_of(graph.at(spread).op).does + " " +
                        quoted(graph, made) + ", which the kernel does not compute",
                    {{.with = {made}}, {.without = {combine}, .any_kind = true}}, "leave it out");
    }
    if (first.attributes.axis != graph.at(spread).attributes.axis ||
        first.layout != graph.at(made).layout || first.shape != graph.at(made).shape) {
      throw ScheduleError(quoted(graph, combine) + " makes " + describe(graph, combine) + " but " +
                          quoted(graph, spread) + " gathers " + describe(graph, made) +
                          "; they must slice alike");
    }
    if (first.op == Op::reduce && first.attributes.root != graph.at(spread).attributes.root) {
      throw ScheduleError(fmt::format("{} has root {} but {} has root {}; they must have one root",
                                      quoted(graph, combine), first.attributes.root,
                                      quoted(graph, spread), graph.at(spread).attributes.root));
    }
  }
  const ValueId early = combine < 0 ? -1 : before_combine(graph, members, combine);
  if (early >= 0) {
    throw ScheduleError(
        quoted(graph, early) + " comes before " + quoted(graph, combine) + "; the kernel takes " +
        (spread >= 0 ? "computation between the collectives" : "computation behind it") +
        ": leave it out");
  }
  const bool whole = halves.combine == Op::all_reduce;
  require_domain(graph, members, collective.domain,
                 spread >= 0 ? find_spread(graph, members, spread)
                 : whole     ? find_spread(graph, members, combine)
                             : std::set<ValueId>{});
}

/// What a multicast pointer asks of a kernel. Computation and sends have no use for one, and do
/// without.
void check_multicast(const Graph& graph, const Fusion& fusion) {
  const bool exchanges =
      fusion.kind != Fusion::Kind::computation && fusion.kind != Fusion::Kind::send;
  if (!exchanges || !uses_multicast(fusion.knobs)) return;
  if (const std::string conflict = conflict_in(fusion.knobs); !conflict.empty())
    throw ScheduleError(conflict);
  const std::set<ValueId> members = {fusion.members.begin(), fusion.members.end()};
  const int axis = find_collective(graph, members).axis;
  const Mesh::Axis& along = graph.mesh.axes()[axis];
  if (along.size != graph.mesh.size()) {
    throw ScheduleError(fmt::format(
        "the algorithm 'multimem' reaches all {} ranks of the mesh {}, but its collective is among "
        "the {} along axis '{}'; use the algorithm 'direct', or a mesh of one axis",
        graph.mesh.size(), graph.mesh.str(), along.size, along.name));
  }
  const auto refuse_scattered = [&](ValueId id) {
    if (tells_buffers(graph.at(id))) {
      throw ScheduleError("the algorithm 'multimem' takes tensors as they lie in one piece, but " +
                          quoted(graph, id) +
                          " tells their buffers apart; use the algorithm 'direct'");
    }
    if (!graph.at(id).attributes.scattered) return;
    throw ScheduleError("the algorithm 'multimem' takes tensors that lie in one piece, but " +
                        quoted(graph, id) +
                        " is scattered over buffers; use the algorithm 'direct'");
  };
  for (const ValueId member : members) {
    refuse_scattered(member);
    for (const ValueId operand : graph.at(member).operands) refuse_scattered(operand);
  }
}

/// Whether every dimension of `shape` is of the fixed extent 1.
bool is_single(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& dim) { return dim == Dim(1); });
}

}  // namespace

Fusion::Kind kind_of(const Graph& graph, const std::vector<std::string>& ops) {
  std::vector<ValueId> ids;
  for (const std::string& name : ops) {
    if (const ValueId id = graph.find(name); id >= 0) ids.push_back(id);
  }
  return ir::halves_of(graph, ids).kind;
}

Collective find_collective(const Graph& graph, const std::set<ValueId>& members) {
  const Halves halves = halves_of(graph, members);
  std::string takes;
  for (const Op op : {halves.combine, halves.spread}) {
    if (op != Halves::none)
      takes += (takes.empty() ? "one " : " and one ") + std::string(to_string(op));
  }
  Collective collective;
  if (halves.combine != Halves::none)
    collective.combine = find_one(graph, members, halves.combine, takes);
  if (halves.spread != Halves::none)
    collective.spread = find_one(graph, members, halves.spread, takes);
  if (collective.combine >= 0) {
    collective.domain = collective.combine;
    collective.axis = graph.at(collective.combine).attributes.axis;
  } else if (collective.spread >= 0) {
    collective.domain = graph.at(collective.spread).operands.front();
    collective.axis = graph.at(collective.spread).attributes.axis;
  }
  return collective;
}

bool reduces_domain(const Graph& graph, const Collective& collective, ValueId id) {
  const Node& node = graph.at(id);
  if (node.op != Op::reduction || collective.domain < 0) return false;
  const Node& domain = graph.at(collective.domain);
  const Node& from = graph.at(node.operands.front());
  if (domain.shape.empty() || from.shape != domain.shape) return false;
  if (node.attributes.dims.size() != domain.shape.size() || node.attributes.partial) return false;
  for (std::size_t axis = 0; axis < domain.layout.size(); ++axis) {
    const Placement here = domain.layout[axis];
    if (static_cast<int>(axis) != collective.axis) {
      if (here.kind == Placement::Kind::sliced || from.layout[axis] != here) return false;
      continue;
    }
    if (here.kind != Placement::Kind::sliced) return false;
    if (from.layout[axis] != here && from.layout[axis] != replicated) return false;
  }
  return true;
}

bool tells_buffers(const Node& node) {
  return node.op == Op::repeat || node.attributes.per_buffer;
}

bool is_per_buffer(const Graph& graph, ValueId domain, ValueId id) {
  const Shape& elements = graph.at(domain).shape;
  return elements.size() == 1 && elements.front().symbolic() &&
         graph.at(id).shape == Shape{ir::buffers_of(elements.front())};
}

bool is_scalar(const Graph& graph, ValueId domain, ValueId id) {
  const Node& node = graph.at(id);
  if (is_per_buffer(graph, domain, id)) return true;
  if (node.op == Op::reduction &&
      node.attributes.dims.size() == graph.at(node.operands.front()).shape.size())
    return true;
  const Shape& wide = graph.at(domain).shape;
  return is_single(node.shape) && (!is_single(wide) || (node.shape.empty() && !wide.empty()));
}

bool leaves(const Graph& graph, const std::set<ValueId>& members, ValueId id) {
  return graph.at(id).op == Op::update || graph.is_output(id) ||
         std::ranges::any_of(graph.users()[id],
                             [&](ValueId user) { return !members.contains(user); });
}

namespace {

void check_contents(const Graph& graph, const ValueSet& live, const std::set<ValueId>& members) {
  const Halves halves = halves_of(graph, members);
  refuse_views_of_members(graph, members);
  if (halves.kind == Fusion::Kind::computation) {
    check_computation(graph, members);
  } else {
    check_collective(graph, live, halves, members);
  }
}

}  // namespace

void check_kernel(const Graph& graph, const std::set<ValueId>& members) {
  check_contents(graph, live_values(graph), members);
  refuse_cycle(graph, members);
  refuse_gap(graph, members);
}

void check_kernels(const Graph& graph) {
  if (graph.fusions().empty()) return;
  const ValueSet live = live_values(graph);
  const bool looks_for_cycle = has_cycle(graph);
  for (const Fusion& fusion : graph.fusions()) {
    const std::set<ValueId> members = {fusion.members.begin(), fusion.members.end()};
    try {
      check_contents(graph, live, members);
      if (looks_for_cycle) refuse_cycle(graph, members);
      refuse_gap(graph, members);
      check_multicast(graph, fusion);
    } catch (const ScheduleError& error) {
      throw ScheduleError("kernel '" + fusion.name + "' cannot be: " + error.what());
    }
  }
}

}  // namespace coconet::sched
