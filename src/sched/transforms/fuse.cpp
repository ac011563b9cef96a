// fuse: makes one kernel of several ops. The kernel holds the named ops and the pointwise ops that
// they read, directly or through further pointwise ops. The rules are in sched/kernels.cpp.
//
// Kinds, which follow from the collectives among the ops:
//   computation     pointwise ops and updates over one domain
//   all_reduce      reduce_scatter, computation on the slice, all_gather, and updates of the
//   result;
//                   or reduce, computation, broadcast; or an all_reduce alone
//   reduce_scatter  reduce_scatter and computation on the slice
//   all_gather      computation on the slice, all_gather, and the updates of what was gathered
//   reduce          reduce and computation
//   broadcast       computation, broadcast, and the updates of what was broadcast
//   send            computation, send, and the updates of what arrives
// Computation on slices may hold reductions over all that is sliced, as LAMB's norms.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "coconet/error.h"
#include "ir/ascii.h"
#include "ir/collective_halves.h"
#include "ir/factors.h"
#include "sched/kernels.h"
#include "sched/knobs.h"
#include "sched/refusal.h"
#include "sched/remedies.h"
#include "sched/rewrite.h"
#include "sched/transforms/fuse.h"

namespace coconet::sched {

namespace {

using ir::Fusion;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

// After "" for whichever the ops make.
constexpr std::string_view kinds[] = {"",           "computation", "all_reduce", "reduce_scatter",
                                      "all_gather", "reduce",      "broadcast",  "send"};
// The names that a knob takes, after "" for the default.
constexpr std::string_view algorithm_names[] = {
    "",
#define COCONET_ALGORITHM(name, summary) #name,
#include "coconet/algorithms.def"
#undef COCONET_ALGORITHM
};
constexpr std::string_view protocol_names[] = {
    "",
#define COCONET_PROTOCOL(name, summary) #name,
#include "coconet/algorithms.def"
#undef COCONET_PROTOCOL
};

constexpr Parameter fuse_parameters[] = {
    {"kernel", Parameter::Kind::text, true, "", {}, "the kernel's name, a C identifier"},
    {"kind", Parameter::Kind::text, false, "", kinds,
     "the kind of kernel that the ops make; checked where it is given"},
    {.name = "ops",
     .kind = Parameter::Kind::list,
     .summary = "the ops to fuse; the pointwise ops that they read join them",
     .takes_patterns = true},
#define COCONET_NAME_KNOB(name, variable, summary, effect) \
  {#name, Parameter::Kind::text, false, "", name##_names, "knob: " summary},
#define COCONET_NUMBER_KNOB(name, variable, valid, accepted, summary, automatic, effect, unit) \
  {#name, Parameter::Kind::integer,                                                            \
   false, "0",                                                                                 \
   {},    "knob: " summary ", " accepted "; 0: automatic" automatic},
#include "coconet/knobs.def"
#undef COCONET_NAME_KNOB
#undef COCONET_NUMBER_KNOB
};

/// `value` as the int that a knob is; what no int holds is no legal value either.
int knob_of(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(),
                                                   std::numeric_limits<int>::max()));
}

Knobs read_knobs(const Step& step) {
  Knobs knobs;
  for (const ir::KnobRow& row : ir::knob_table()) {
    if (row.text != nullptr) {
      knobs.*row.text = step.text(row.name);
    } else {
      knobs.*row.number = knob_of(step.integer(row.name));
    }
  }
  check_knobs(knobs);
  return knobs;
}

std::string read_name(const Graph& graph, const Step& step) {
  const std::string& name = step.text("kernel");
  const bool identifier =
      !name.empty() && !ir::is_digit(name.front()) && std::ranges::all_of(name, ir::is_word);
  if (!identifier) {
    throw ScheduleError("the kernel name '" + name +
                        "' is no identifier; use letters, digits and _");
  }
  for (const Fusion& fusion : graph.fusions()) {
    if (fusion.name == name)
      throw ScheduleError("there is a kernel '" + name + "' already; choose another name");
  }
  return name;
}

/// The ops that the step names.
std::set<ValueId> find_named(const Graph& graph, const std::vector<std::string>& ops) {
  std::set<ValueId> named;
  for (const std::string& name : ops) {
    const ValueId id = require_value(graph, name);
    const Node& node = graph.at(id);
    if (node.weak || ir::states_type(node.op)) {
      throw ScheduleError(quoted(graph, id) +
                          " is an operand, no work that a kernel could do; leave it out");
    }
    refuse_fused(graph, id, "an op is in one kernel");
    named.insert(id);
  }
  if (named.empty()) throw ScheduleError("'ops' is empty; name the ops to fuse");
  return named;
}

/// The kernels a result of which one of `members` is computed from.
std::set<const Fusion*> kernels_before(const Graph& graph, const std::set<ValueId>& members) {
  std::set<const Fusion*> kernels;
  if (graph.fusions().empty()) return kernels;
  for (const ValueId id : ancestors(graph, members)) {
    if (const Fusion* const kernel = graph.fusion_of(id)) kernels.insert(kernel);
  }
  return kernels;
}

/// The last of `members` that leaves the kernel: what nothing needs has no say in what the kernel
/// runs over.
ValueId last_result(const Graph& graph, const std::set<ValueId>& members) {
  const auto last = std::find_if(members.rbegin(), members.rend(),
                                 [&](ValueId id) { return leaves(graph, members, id); });
  return last == members.rend() ? *members.rbegin() : *last;
}

/// Throws when the step says another kind than that of `named`.
void check_kind(const Graph& graph, const Step& step, const std::set<ValueId>& named) {
  const std::string& said = step.text("kind");
  const std::vector<ValueId> ops = {named.begin(), named.end()};
  if (said.empty() || said == to_string(ir::halves_of(graph, ops).kind)) return;
  throw Refusal(fmt::format("'kind' is '{}', but {}", said, ir::kind_reason(graph, ops)),
                remedies_of_kind(graph, said, named), "give that kind, or none");
}

/// Adds the pointwise ops that `members` read, directly or through further ones, and the reductions
/// that the kernel can hold. What is needed elsewhere too joins only where the kernel can
/// hand it out: in the kernel's domain, or as a single element that it computes from its own
/// reductions; and not if the kernel would have to wait for what is computed from it.
void add_operands(const Graph& graph, std::set<ValueId>& members) {
  const auto& users = graph.users();
  const Collective collective = find_collective(graph, members);
  const ValueId domain_id =
      collective.domain >= 0 ? collective.domain : last_result(graph, members);
  const Node& domain = graph.at(domain_id);
  const auto reduced = [&](ValueId id) { return reduces_domain(graph, collective, id); };
  const ValueSet from_reductions = [&] {
    std::set<ValueId> reductions;
    for (ValueId id = 0; id < graph.size(); ++id) {
      if (reduced(id)) reductions.insert(id);
    }
    return descendants(graph, reductions);
  }();
  // What joins is needed by a member already, so that these stay the same.
  const std::set<const Fusion*> before = kernels_before(graph, members);
  std::vector<bool> awaited(graph.nodes().size(), false);  // outside, and a member needs it
  for (ValueId id = graph.size() - 1; id >= 0; --id) {
    if (members.contains(id)) continue;
    const Node& node = graph.at(id);
    bool shared = graph.is_output(id);
    bool needed = false;
    bool viewed = false;
    bool waits = false;
    for (const ValueId user : users[id]) {
      const bool inside = members.contains(user) && user != collective.combine;
      needed = needed || inside;
      viewed = viewed || (inside && ir::reads_elsewhere(graph.at(user), id));
      shared = shared || !inside;
      waits = waits || awaited[user] || (!inside && members.contains(user)) ||
              (graph.fusion_of(user) != nullptr && before.contains(graph.fusion_of(user)));
    }
    const bool can_store = (node.shape == domain.shape && node.layout == domain.layout) ||
                           (from_reductions.contains(id) && is_scalar(graph, domain_id, id));
    const bool computable = (ir::is_elementwise(node.op) && !node.weak) || reduced(id);
    const bool joins = needed && !viewed && computable && graph.fusion_of(id) == nullptr &&
                       (!shared || (can_store && !waits));
    if (joins) members.insert(id);
    awaited[id] = !joins && (needed || waits);
  }
}

Graph apply_fuse(const Graph& graph, const Step& step) {
  Fusion fusion;
  fusion.name = read_name(graph, step);
  fusion.knobs = read_knobs(step);
  std::set<ValueId> members = find_named(graph, step.list("ops"));
  check_kind(graph, step, members);
  add_operands(graph, members);
  check_kernel(graph, members);
  fusion.members.assign(members.begin(), members.end());
  Graph result = graph;
  result.add_fusion(std::move(fusion));
  return result;
}

}  // namespace

constinit const Transformation fuse_transformation{"fuse", "makes one kernel of several ops",
                                                   fuse_parameters, apply_fuse, fuse_candidates};

}  // namespace coconet::sched
